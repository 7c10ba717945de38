"""Projections of sets: the simplex against a numerical solution, gradients, and features that are held."""

import pickle

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from setpredict import DSPN, Code, DeepSetEncoder, GradientDescent
from setpredict.config import DecoderConfig, Implicit, ModelConfig, Unrolled
from setpredict.core.errors import UserError
from setpredict.decoders import InputSet
from setpredict.decoders.projection import simplex, simplexes, unit_box
from setpredict.model import SetPredictor


@pytest.mark.parametrize("K", [1, 2, 5])
def test_the_simplex_against_a_numerical_solution(K):
    sums_to_one = {"type": "eq", "fun": lambda p: p.sum() - 1}
    for x in torch.randn(6, K, dtype=torch.float64, generator=torch.Generator().manual_seed(K)) * 2:
        given = x.numpy()
        far = lambda p, given=given: ((p - given) ** 2).sum()  # noqa: E731
        found = minimize(far, np.full(K, 1 / K), bounds=[(0, 1)] * K, constraints=sums_to_one)
        torch.testing.assert_close(simplex(x), torch.from_numpy(found.x), rtol=0, atol=1e-5)


def test_points_of_the_simplex_stay():
    points = torch.eye(4, dtype=torch.float64), torch.full((1, 4), 0.25, dtype=torch.float64)
    for point in points:
        torch.testing.assert_close(simplex(point), point)
    x = torch.randn(3, 5, 4)
    assert simplex(x).shape == x.shape
    torch.testing.assert_close(simplex(x).sum(dim=-1), torch.ones(3, 5))
    assert simplex(x).min() >= 0
    torch.testing.assert_close(simplex(simplex(x)), simplex(x))


def test_the_gradient_of_the_simplex():
    x = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(simplex, (x,))


def test_only_groups_are_projected():
    x = torch.randn(2, 3, 7)
    found = simplexes([(4, 6), (1, 3)])(x)
    torch.testing.assert_close(found[..., [0, 3, 6]], x[..., [0, 3, 6]])
    torch.testing.assert_close(found[..., 1:3], simplex(x[..., 1:3]))
    torch.testing.assert_close(found[..., 4:6], simplex(x[..., 4:6]))
    assert unit_box((2.0, 1.0))(torch.tensor([[3.0, 3.0], [-1.0, 0.5]])).tolist() == [[2.0, 1.0], [0.0, 0.5]]


@pytest.mark.parametrize("gradient", [Unrolled(), Implicit()])
def test_held_features_stay_and_the_others_move(gradient):
    torch.manual_seed(0)
    encoder = DeepSetEncoder(5, 8, 3, hidden=(16,), mask="none")
    initial = InputSet(3, 5, (1.0, 1.0), "none").eval()
    options = {"solver": GradientDescent(4, 10.0), "mask": "none", "gradient": gradient}
    decoder = DSPN(encoder, initial=initial, held=2, project=simplexes([(2, 5)]), **options)
    code = Code(torch.randn(2, 8), tokens=torch.rand(2, 3, 2))
    elements = decoder(code).elements
    assert code.tokens is not None
    torch.testing.assert_close(elements[..., :2], code.tokens.expand(5, -1, -1, -1))
    assert not torch.allclose(elements[0, ..., 2:], elements[-1, ..., 2:])
    torch.testing.assert_close(elements[..., 2:].sum(dim=-1), torch.ones(5, 2, 3))


def test_probabilities_need_categories():
    with pytest.raises(UserError, match=r"decoder.project simplex is for categories, and the elements have none"):
        SetPredictor.from_config(ModelConfig(4, 2, decoder=DecoderConfig(project="simplex")))


@pytest.mark.parametrize("project", [unit_box((5.0, 1.0)), unit_box(()), simplexes([(1, 3)])])
def test_decoders_with_a_projection_can_be_pickled(project):
    x = torch.randn(2, 4, 2 if project.func.__name__ == "_clamp" else 3)
    again = pickle.loads(pickle.dumps(project))
    assert torch.equal(again(x), project(x))
