"""Counter-based random numbers against a numpy implementation of splitmix64, and their statistics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpredict.core.rng import draw, item_keys, key, normal, start, uniform

GOLDEN = 0x9E3779B97F4A7C15
uint64 = st.integers(0, 2**64 - 1)


def mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def oracle(key: int, indices: np.ndarray, count: int) -> np.ndarray:
    """splitmix64 on the grid (item, counter), in plain numpy."""
    with np.errstate(over="ignore"):
        item = mix(np.uint64(key) + (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN))  # (B,)
        counter = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)  # (count,)
        bits = mix(item[:, None] + counter[None, :])  # (B, count)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


@given(uint64, st.lists(st.integers(0, 2**62), max_size=5), st.integers(0, 7))
def test_uniform_has_the_bits_of_the_oracle(key: int, indices: list[int], count: int):
    array = np.array(indices, np.int64)
    found = uniform(item_keys(key, array), count)
    assert found.shape == (len(indices), count)
    assert np.array_equal(found, oracle(key, array, count))


def test_published_values_of_splitmix64():
    """The first outputs of the reference implementation (Vigna) for the seed 1234567."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    expected = np.array([(value >> 11) * 2.0**-53 for value in published])
    assert np.array_equal(uniform(np.array([1234567], np.uint64), 4)[0], expected)


def test_draws_in_kernels_are_the_same_numbers():
    state = np.array([start(np.uint64(99), 5)], np.uint64)
    assert [draw(state) for _ in range(6)] == uniform(item_keys(99, np.array([5])), 6)[0].tolist()


def test_an_item_does_not_depend_on_the_others():
    together = uniform(item_keys(key(3), np.array([8, 2, 8, 0])), 3)
    for row, index in zip(together, (8, 2, 8, 0)):
        assert np.array_equal(row, uniform(item_keys(key(3), np.array([index])), 3)[0]), index


def test_keys_depend_on_every_part_and_their_order():
    parts = (0, 1, 2, 2**31, "train", "val")
    keys = [key(a, b) for a in parts for b in parts]
    assert len(set(keys)) == len(parts) ** 2
    assert all(0 <= k < 2**64 for k in keys)
    with pytest.raises(ValueError, match="negative"):
        key(-1)


def test_no_number_twice_over_seeds_epochs_items_and_counters():
    """In particular, the items of seed s + 1 are not those of seed s shifted by some indices."""
    indices = np.arange(200)
    numbers = [uniform(item_keys(key(s, e), indices), 4) for s in range(6) for e in range(6)]
    assert len(np.unique(np.stack(numbers))) == 6 * 6 * 200 * 4


@pytest.mark.parametrize("shift", range(-20, 21))
def test_neighboring_seeds_and_epochs_are_uncorrelated(shift: int):
    indices = np.arange(100, 10_100)
    a = uniform(item_keys(key(4, 7), indices), 1)[:, 0]
    for other in (key(5, 7), key(4, 8)):
        b = uniform(item_keys(other, indices + shift), 1)[:, 0]
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.05  # five standard deviations


def test_uniform_numbers_are_uniform_and_independent():
    numbers = uniform(item_keys(key(0, "x"), np.arange(20_000)), 4)
    assert np.abs(numbers.mean(0) - 0.5).max() < 0.01
    assert np.abs(numbers.var(0) - 1 / 12).max() < 0.002
    assert np.abs(np.corrcoef(numbers.T) - np.eye(4)).max() < 0.03
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.03
    counts = np.histogram(numbers[:, 1], bins=20, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 45  # chi-square with 19 degrees of freedom, p ≈ 0.0007


def test_normal_numbers_have_the_moments_of_a_standard_normal():
    numbers = normal(item_keys(key(1), np.arange(50_000)), 3)
    assert numbers.shape == (50_000, 3)
    assert np.isfinite(numbers).all()
    for power, (moment, bound) in enumerate([(0, 0.02), (1, 0.03), (0, 0.09), (3, 0.22)], start=1):
        found = (numbers**power).mean(0)
        assert np.abs(found - moment).max() < bound, f"moment {power}: {found}, expected {moment}"
    assert np.abs(np.corrcoef(numbers.T) - np.eye(3)).max() < 0.03
    below = (numbers < 1).mean()
    assert below == pytest.approx(0.841345, abs=0.005)  # Φ(1)


def test_normal_is_the_box_muller_transform_of_uniform():
    keys = item_keys(key(2), np.arange(4))
    u = uniform(keys, 6)
    expected = np.sqrt(-2 * np.log(1 - u[:, :3])) * np.cos(2 * np.pi * u[:, 3:])
    assert normal(keys, 3) == pytest.approx(expected, abs=1e-12)
