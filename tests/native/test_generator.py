"""Seeds and states: the same numbers for the same seed, and nobody else's state touched."""

from __future__ import annotations

import pytest
import torch

from tests.child import run
from torch_fl import flagos

DRAWS = {
    "rand": lambda device, **how: torch.rand(7, device=device, **how),
    "randn": lambda device, **how: torch.randn(7, device=device, **how),
    "randint": lambda device, **how: torch.randint(1000, (7,), device=device, **how),
    "randperm": lambda device, **how: torch.randperm(7, device=device, **how),
    "normal_": lambda device, **how: torch.empty(7, device=device).normal_(**how),
    "bernoulli_": lambda device, **how: torch.empty(64, device=device).bernoulli_(0.5, **how),
    "multinomial": lambda device, **how: torch.multinomial(torch.ones(50, device=device), 7, **how),
}


@pytest.mark.parametrize("name", DRAWS)
def test_same_seed_same_numbers(name: str) -> None:
    draw = DRAWS[name]
    torch.manual_seed(11)
    first, second = draw("flagos").cpu(), draw("flagos").cpu()
    torch.manual_seed(11)
    assert torch.equal(draw("flagos").cpu(), first)
    assert torch.equal(draw("flagos").cpu(), second)
    torch.manual_seed(12)
    assert not torch.equal(draw("flagos").cpu(), first)


@pytest.mark.parametrize("name", DRAWS)
def test_explicit_generator(name: str) -> None:
    draw = DRAWS[name]
    generator = torch.Generator("flagos").manual_seed(5)
    default = flagos.get_rng_state()
    first = draw("flagos", generator=generator).cpu()
    assert torch.equal(flagos.get_rng_state(), default)
    generator.manual_seed(5)
    assert torch.equal(draw("flagos", generator=generator).cpu(), first)


def test_device_draws_leave_the_cpu_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    torch.rand(1000, device="flagos")
    assert torch.equal(torch.rand(4), expected)


def test_seed_reaches_all_devices() -> None:
    torch.manual_seed(21)
    first, second = (torch.rand(5, device=f"flagos:{index}").cpu() for index in (0, 1))
    assert torch.equal(first, second)
    assert flagos.initial_seed() == 21
    with flagos.device(1):
        flagos.manual_seed(22)
        assert flagos.initial_seed() == 22
    assert flagos.initial_seed() == 21
    flagos.manual_seed_all(23)
    assert flagos.initial_seed() == 23


def test_seed_given_before_a_device_is_used() -> None:
    result = run(
        "import torch, torch_fl\n"
        "torch.manual_seed(77)\n"
        "assert not torch.flagos.is_initialized()\n"
        "print(torch.flagos.initial_seed())\n"
        "first = torch.rand(3, device='flagos').tolist()\n"
        "torch.manual_seed(77)\n"
        "print(torch.rand(3, device='flagos').tolist() == first)\n"
    ).check()
    assert result.stdout == "77\nTrue\n"


def test_same_numbers_in_another_process_and_thread_count() -> None:
    snippet = (
        "import torch, torch_fl; torch.set_num_threads({}); torch.manual_seed(4)\n"
        "print(torch.randn(40, device='flagos').tolist())"
    )
    one, two = (run(snippet.format(threads)).check().stdout for threads in (1, 2))
    torch.manual_seed(4)
    assert one == two == f"{torch.randn(40, device='flagos').tolist()}\n"


@pytest.mark.parametrize("device", ["flagos", "flagos:1", 1, torch.device("flagos:0")])
def test_state_round_trip(device) -> None:
    index = torch.empty(0, device=device if not isinstance(device, int) else f"flagos:{device}").device
    state = flagos.get_rng_state(device)
    assert state.device.type == "cpu"
    assert state.dtype == torch.uint8
    first = torch.rand(5, device=index).cpu()
    assert not torch.equal(torch.rand(5, device=index).cpu(), first)
    flagos.set_rng_state(state, device)
    assert torch.equal(torch.rand(5, device=index).cpu(), first)


def test_states_of_all_devices() -> None:
    states = flagos.get_rng_state_all()
    assert len(states) == 2
    before = [torch.rand(3, device=f"flagos:{index}").cpu() for index in (0, 1)]
    flagos.set_rng_state_all(states)
    after = [torch.rand(3, device=f"flagos:{index}").cpu() for index in (0, 1)]
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_fork_rng_restores_both_devices() -> None:
    states = flagos.get_rng_state_all()
    with torch.random.fork_rng(devices=[0, 1], device_type="flagos"):
        torch.manual_seed(1)
        torch.rand(3, device="flagos:1")
    assert all(torch.equal(*pair) for pair in zip(states, flagos.get_rng_state_all(), strict=True))


def test_new_generator() -> None:
    generator = torch.Generator("flagos:1")
    assert generator.device == torch.device("flagos:1")
    assert generator.manual_seed(9) is generator
    assert generator.initial_seed() == 9
    assert generator.seed() == generator.initial_seed()
    with flagos.device(1):
        assert torch.Generator("flagos").device == torch.device("flagos:1")


def test_cloned_state_goes_its_own_way() -> None:
    generator = torch.Generator("flagos").manual_seed(6)
    clone = generator.clone_state()
    assert clone.device == generator.device
    first = torch.rand(4, device="flagos", generator=generator).cpu()
    assert torch.equal(torch.rand(4, device="flagos", generator=clone).cpu(), first)


def test_seed_differs_each_time() -> None:
    flagos.seed()
    first = flagos.initial_seed()
    flagos.seed()
    assert flagos.initial_seed() != first
    flagos.seed_all()
    assert torch.equal(*flagos.get_rng_state_all())


@pytest.mark.parametrize("seed", [0, -1, 2**64 - 1, -(2**63)])
def test_extreme_seeds(seed: int) -> None:
    torch.manual_seed(seed)
    assert flagos.initial_seed() == seed % 2**64 == torch.Generator("flagos").manual_seed(seed).initial_seed()


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seed_that_does_not_fit(seed: int) -> None:
    before = flagos.initial_seed()
    with pytest.raises(RuntimeError, match="verflow"):
        flagos.manual_seed_all(seed)
    assert flagos.initial_seed() == before


def test_state_of_the_wrong_size() -> None:
    with pytest.raises(RuntimeError):
        flagos.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_offset_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="has no offset"):
        torch.Generator("flagos").get_offset()


def test_dropout_follows_the_seed() -> None:
    data = torch.ones(1000, device="flagos")
    torch.manual_seed(8)
    first = torch.nn.functional.dropout(data).cpu()
    torch.manual_seed(8)
    assert torch.equal(torch.nn.functional.dropout(data).cpu(), first)
