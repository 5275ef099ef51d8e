"""Train a two-layer network on scikit-learn's 1,797 handwritten digits, on one device.

    python -m tests.demo.digits flagos

Data, split, initial weights and batch order come from fixed seeds on the CPU, so that two devices see the same run.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from torch.nn import functional

SEED = 20261201
TEST_IMAGES = 397
EPOCHS = 15
BATCH = 100
LEARNING_RATE = 0.2


class Run(NamedTuple):
    """The mean training loss of each epoch, and the share of test images classified right."""

    losses: tuple[float, ...]
    accuracy: float


def train(device: str) -> Run:
    """One seeded training run on `device`; every tensor of the loop lives there."""
    data = load_digits()
    images = torch.tensor(data.data, dtype=torch.float32) / 16.0
    labels = torch.tensor(data.target, dtype=torch.int64)
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(len(images), generator=generator)
    test, training = order[:TEST_IMAGES], order[TEST_IMAGES:]

    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    network.to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)

    losses = []
    for _ in range(EPOCHS):
        shuffled = training[torch.randperm(len(training), generator=generator)]
        total = 0.0
        for batch in shuffled.split(BATCH):
            optimizer.zero_grad()
            logits = network(images[batch].to(device))
            loss = functional.nll_loss(functional.log_softmax(logits, dim=1), labels[batch].to(device))
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(training))
    with torch.no_grad():
        predicted = network(images[test].to(device)).cpu().argmax(dim=1)
    return Run(tuple(losses), (predicted == labels[test]).float().mean().item())


def main() -> int:
    device = sys.argv[1] if len(sys.argv) > 1 else "flagos"
    if device == "flagos":
        import torch_fl  # noqa: F401  (registers the device)
    reference, run = train("cpu"), train(device)
    worst = max(abs(a - b) / abs(b) for a, b in zip(run.losses, reference.losses))
    for epoch in (0, EPOCHS // 2, EPOCHS - 1):
        print(f"epoch {epoch + 1:2d}  loss {device} {run.losses[epoch]:.6f}  cpu {reference.losses[epoch]:.6f}")
    print(f"accuracy {device} {run.accuracy:.4f}  cpu {reference.accuracy:.4f}")
    print(f"largest relative difference of an epoch's loss {worst:.1e}")
    agree = worst <= 1e-4 and abs(run.accuracy - reference.accuracy) <= 0.01
    print("the two runs agree" if agree else "the two runs differ by more than 1e-4 in a loss or one point in accuracy")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
