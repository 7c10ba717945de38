"""Slot attention and the transformer decoder: oracles, symmetries, batches, gradients, sizes, steps."""

import math

import pytest
import torch
from torch import nn

from setpredict import Code, Decoder, UserError
from setpredict.decoders import Layered, SlotDecoder, TransformerDecoder
from setpredict.decoders.transformer import Attention, Layer

KINDS = ("slots", "learned", "random", "input", "input+random")
N, D, C = 5, 2, 3


def decoder(kind: str, **options):
    """A small decoder in float64, in evaluation mode."""
    torch.manual_seed(0)
    sizes = {"channels": C, "max_size": N, "features": D, "width": 8, "hidden": (12,), "steps": 3}
    if kind == "slots":
        return SlotDecoder(**{**sizes, **options}).double().eval()
    return TransformerDecoder(**{**sizes, "heads": 2, "queries": kind, **options}).double().eval()


def tokens(B: int = 3, P: int = N, masked: bool = True) -> Code:
    """Sets of P tokens; with a mask, of sizes P, P − 1, …, and with noise in the padding's place to be ignored."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(B, P, C, generator=generator, dtype=torch.float64)
    mask = torch.arange(P) < (P - torch.arange(B) % P)[:, None] if masked else None
    return Code(values.new_zeros(B, 0), tokens=values, token_mask=mask)


def permuted(code: Code, order: torch.Tensor) -> Code:
    assert code.tokens is not None
    return Code(
        code.vector,
        tokens=code.tokens[:, order],
        token_mask=None if code.token_mask is None else code.token_mask[:, order],
    )


def slots_by_loops(model: SlotDecoder, code: Code) -> torch.Tensor:
    """Algorithm 1 of Locatello et al., sample by sample and slot by slot; returns the last slots (B, N, W)."""
    found = []
    assert code.tokens is not None
    for b in range(len(code)):
        assert code.token_mask is not None
        inputs = model.inputs(code.tokens[b][code.token_mask[b]])
        slots = model.slots(code)[b]
        for _ in range(model.steps):
            part, W = model.attention, model.width
            logits = [[part.key(x) @ part.query(part.norm(s)) / math.sqrt(W) for s in slots] for x in inputs]
            weight = torch.stack([torch.stack(row).softmax(0) for row in logits]) + 1e-8  # (P, N): over slots
            new = []
            for i, slot in enumerate(slots):
                update = sum(w * part.value(x) for w, x in zip(weight[:, i] / weight[:, i].sum(), inputs))
                assert isinstance(update, torch.Tensor)
                state = part.gru(update[None], slot[None])[0]
                new.append(state + part.mlp(part.norm_mlp(state)))
            slots = torch.stack(new)
        found.append(slots)
    return torch.stack(found)


def test_slots_follow_the_published_algorithm():
    model, code = decoder("slots"), tokens()
    assert isinstance(model, SlotDecoder)
    expected = model.output(slots_by_loops(model, code))
    final = model(code).final
    torch.testing.assert_close(final.elements, expected[..., :-1])
    torch.testing.assert_close(final.mask, expected[..., -1])


def test_attention_is_that_of_torch():
    ours = Attention(8, heads=2).double()
    theirs = nn.MultiheadAttention(8, 2, batch_first=True).double()
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    code, x = tokens(P=7), torch.randn(3, N, 8, dtype=torch.float64)
    seen, values = code.token_mask, torch.randn(3, 7, 8, dtype=torch.float64)
    assert seen is not None
    torch.testing.assert_close(ours(x, values, seen), theirs(x, values, values, key_padding_mask=~seen)[0])


def test_a_layer_is_that_of_torch():
    ours = Layer(8, 2, (12,)).double()
    theirs = nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True).double()
    for attention, other in ((ours.among, theirs.self_attn), (ours.tokens, theirs.multihead_attn)):
        parts = (attention.query, attention.key, attention.value)
        with torch.no_grad():
            other.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
            other.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
        other.out_proj.load_state_dict(attention.output.state_dict())
    theirs.linear1.load_state_dict(ours.mlp[0].state_dict())
    theirs.linear2.load_state_dict(ours.mlp[2].state_dict())
    x, values = torch.randn(3, N, 8, dtype=torch.float64), torch.randn(3, 7, 8, dtype=torch.float64)
    everything = torch.ones(3, 7, dtype=torch.bool)
    torch.testing.assert_close(ours(x, values, None, everything), theirs(x, values))


@pytest.mark.parametrize("kind", ["slots", "learned", "random"])
def test_the_order_of_the_tokens_does_not_matter(kind):
    model, code = decoder(kind), tokens(P=7)
    again = model(permuted(code, torch.tensor([3, 6, 0, 5, 1, 4, 2])))
    torch.testing.assert_close(again.elements, model(code).elements)
    torch.testing.assert_close(again.mask, model(code).mask)


@pytest.mark.parametrize("kind", ["slots", "random", "learned"])
def test_initial_slots_and_queries_in_another_order_give_the_set_in_that_order(kind):
    """Slots and random queries are exchangeable: their values decide, not their places. So are learned ones, of course:
    what is list-like about them is that training gives each its own value, see below."""
    model, code, order = decoder(kind), tokens(), torch.tensor([4, 2, 0, 1, 3])
    before = model(code)
    names = {"slots": "slots.noise.evaluation", "random": "queries.noise.evaluation", "learned": "queries.values"}
    values = model.state_dict()[names[kind]]  # shares its memory
    values.copy_(values[order].clone())
    torch.testing.assert_close(model(code).elements, before.elements[:, :, order])


def test_queries_of_the_input_are_equivariant_and_learned_ones_are_not():
    code, order = tokens(masked=False), torch.tensor([4, 2, 0, 1, 3])
    from_input = decoder("input")
    torch.testing.assert_close(from_input(permuted(code, order)).elements, from_input(code).elements[:, :, order])
    learned = decoder("learned")
    elements = learned(code).final.elements
    torch.testing.assert_close(learned(permuted(code, order)).final.elements, elements)  # element i stays query i's
    assert not torch.allclose(elements, elements[:, order])


@pytest.mark.parametrize("kind", KINDS)
def test_equal_elements_stay_equal_only_without_noise(kind):
    """What a set-equivariant network cannot do, and chance or a learned list can."""
    model, code = decoder(kind), tokens(masked=False)
    assert code.tokens is not None
    code.tokens = code.tokens[:, :1].expand(-1, N, -1).contiguous()
    elements = model(code).final.elements
    assert torch.allclose(elements, elements[:, :1].expand_as(elements)) == (kind == "input")


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_equals_its_samples(kind):
    model, code, keys = decoder(kind), tokens(), torch.tensor([5, 2**61, 7])
    for given in (None, keys):
        together = model(code, keys=given)
        for b in range(len(code)):
            alone = model(code[b : b + 1], keys=None if given is None else given[b : b + 1])
            torch.testing.assert_close(alone.elements[:, 0], together.elements[:, b])
            torch.testing.assert_close(alone.mask[:, 0], together.mask[:, b])


@pytest.mark.parametrize("kind", ["slots", "random", "input+random"])
def test_noise_is_new_in_training_and_the_same_in_evaluation(kind):
    model, code = decoder(kind), tokens()
    first, again = model(code).elements, model(code).elements
    assert torch.equal(first, again)
    model.train()
    assert not torch.allclose(model(code).elements, model(code).elements)
    keys = torch.arange(3)
    assert torch.equal(model(code, keys=keys).elements, model(code, keys=keys).elements)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_matter(kind):
    model, code = decoder(kind, max_size=9), tokens()
    assert code.tokens is not None
    assert code.token_mask is not None
    more = Code(
        code.vector,
        tokens=torch.cat([code.tokens, torch.full((3, 4, C), 9.0, dtype=torch.float64)], dim=1),
        token_mask=torch.cat([code.token_mask, torch.zeros(3, 4, dtype=torch.bool)], dim=1),
    )
    present = torch.cat([code.token_mask, torch.zeros(3, 4, dtype=torch.bool)], dim=1)
    rows = present if kind.startswith("input") else torch.ones_like(present)  # padding's own queries see it
    torch.testing.assert_close(model(more).final.elements[rows], model(code).final.elements[rows])


@pytest.mark.parametrize("kind", KINDS)
def test_empty_sets_are_finite(kind):
    model = decoder(kind)
    for code in (tokens(), tokens(P=1)):
        assert code.tokens is not None
        code.tokens, code.token_mask = code.tokens * 0, torch.zeros(code.tokens.shape[:2], dtype=torch.bool)
        assert torch.isfinite(model(code).elements).all()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind):
    model, code = decoder(kind, steps=2), tokens(B=2)
    model.train()
    assert code.tokens is not None
    names = [name for name, _ in model.named_parameters()]

    def loss(values, *weights):
        given = Code(code.vector, tokens=values, token_mask=code.token_mask)
        found = torch.func.functional_call(model, dict(zip(names, weights)), (given,), {"keys": torch.tensor([3, 4])})
        return found.elements[1:].square().mean() + found.mask[1:].sin().mean()

    weights = [p.detach().clone().requires_grad_() for p in model.parameters()]
    values = code.tokens.clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (values, *weights), fast_mode=True)
    grads = torch.autograd.grad(loss(values, *weights), weights, allow_unused=True)
    missing = [name for name, g in zip(names, grads) if g is None]
    assert not missing, "several processes would wait for these gradients for ever"


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_set_has_no_gradient_and_no_loss(kind):
    prediction = decoder(kind)(tokens())
    assert (prediction.steps, prediction.grad_from) == (3, 1)
    model = decoder(kind)
    first = model(tokens()).elements[0].sum()
    grads = torch.autograd.grad(first, list(model.parameters()), allow_unused=True)
    assert all(g is None or not g.any() for g in grads)


def test_slots_take_more_iterations_and_transformers_fewer_layers():
    slots, transformer, code = decoder("slots"), decoder("learned"), tokens()
    assert slots(code, steps=7).steps == 7
    torch.testing.assert_close(slots(code, steps=7).elements[:4], slots(code).elements)
    torch.testing.assert_close(transformer(code, steps=2).elements, transformer(code).elements[:3])
    assert transformer(code, steps=0).steps == 0
    with pytest.raises(UserError, match="this transformer has 3 layers and cannot take 4 steps"):
        transformer(code, steps=4)
    with pytest.raises(UserError, match="trains all of its 3 layers, not 1"):
        transformer.train()(code, steps=1)
    assert isinstance(transformer, Layered)
    assert not isinstance(slots, Layered)


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_decoders_of_tokens(kind):
    model = decoder(kind, variable=False)
    assert isinstance(model, Decoder)
    assert (model.steps, model.needs, model.set_encoder) == (3, ("tokens",), None)
    assert model(tokens()).mask.eq(1).all()
    with pytest.raises(ValueError, match="needs tokens, and the code has none"):
        model(torch.zeros(2, 8, dtype=torch.float64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "slots", "steps": 0}, "at least 1 iteration, got decoder.steps 0"),
        ({"kind": "learned", "steps": 0}, "at least 1 layer, got decoder.steps 0"),
        ({"kind": "learned", "heads": 3}, "decoder.width must be a multiple of decoder.heads, got 8 and 3"),
    ],
)
def test_impossible_options_are_named(options, message):
    with pytest.raises(UserError, match=message):
        decoder(**options)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_slots_have_as_many_parameters_as_published():
    """CLEVR's set prediction: 64 features, 64 numbers per slot, an MLP of 128, 18 properties and the presence."""
    model = SlotDecoder(channels=64, max_size=10, features=18, width=64, hidden=(128,))
    norms, projections, gru, mlp = 2 * 2 * 64, 3 * 64 * 64, 3 * (2 * 64 * 64 + 2 * 64), 64 * 128 + 128 + 128 * 64 + 64
    assert count(model.attention) == norms + projections + gru + mlp == 54_080
    assert count(model.slots) == 2 * 64
    feed_forward = 2 * 64 + 2 * (64 * 64 + 64)
    assert count(model.inputs) == feed_forward + 2 * 64  # and the norm before the projections
    assert count(model.output) == 64 * 64 + 64 + 64 * 19 + 19
    assert count(model) == 68_179


def test_layers_have_as_many_parameters_as_in_detr():
    """Six layers of 256 numbers, eight heads and a feed-forward network of 2048, and a norm; 100 queries."""
    model = TransformerDecoder(256, 100, 92, steps=6, width=256, heads=8, hidden=(2048,))
    layer = nn.TransformerDecoderLayer(256, 8, 2048)
    assert count(model.layers) + count(model.norm) == count(nn.TransformerDecoder(layer, 6, nn.LayerNorm(256)))
    assert count(model.layers) == 9_472_512
    assert count(model.queries) == 100 * 256
