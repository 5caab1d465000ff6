"""Proximal policy optimisation [Schulman17] on the same hoppers: no gradient of the simulator."""

from collections.abc import Iterator

import torch
from torch import Tensor

from .task import Hoppers, Policy, network

GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


def train(count: int = 64, horizon: int = 64, seed: int = 0) -> Iterator[tuple[Policy, int]]:
    """Yields the policy and the number of decisions so far, after every iteration."""
    torch.manual_seed(seed)
    task, policy, critic = Hoppers(count, seed=seed), Policy(), network(Hoppers.nobs, 1)
    parameters = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, 1e-3)
    decisions = 0
    while True:
        rows: dict[str, list[Tensor]] = {
            name: [] for name in ("seen", "action", "log_p", "value", "reward", "next", "ends")
        }
        with torch.no_grad():
            for _ in range(horizon):
                seen = task.observe()
                normal = policy(seen)
                action = normal.sample()
                reward, after, fell, over = task.step(action.tanh())
                values = seen, action, normal.log_prob(action).sum(1), critic(seen)[:, 0]
                more = reward, critic(after)[:, 0] * ~fell, fell | over
                for name, x in zip(rows, (*values, *more), strict=True):
                    rows[name].append(x)
        data = {name: torch.stack(x) for name, x in rows.items()}
        advantage, following = torch.zeros_like(data["reward"]), torch.zeros(count).double()
        for k in reversed(range(horizon)):
            error = data["reward"][k] + GAMMA * data["next"][k] - data["value"][k]
            following = error + GAMMA * LAMBDA * following * ~data["ends"][k]
            advantage[k] = following
        data["goal"], data["advantage"] = advantage + data["value"], advantage
        flat = {name: x.flatten(0, 1) for name, x in data.items()}
        for _ in range(5):
            for batch in torch.randperm(count * horizon).chunk(8):
                update({name: x[batch] for name, x in flat.items()}, policy, critic, optimizer)
        decisions += count * horizon
        yield policy, decisions


def update(data: dict, policy: Policy, critic: torch.nn.Module, optimizer: torch.optim.Adam):
    normal = policy(data["seen"])
    ratio = (normal.log_prob(data["action"]).sum(1) - data["log_p"]).exp()
    gain = (data["advantage"] - data["advantage"].mean()) / (data["advantage"].std() + 1e-8)
    surrogate = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
    error = (critic(data["seen"])[:, 0] - data["goal"]).square().mean()
    optimizer.zero_grad()
    (-surrogate.mean() + 0.5 * error).backward()
    for group in (policy, critic):
        torch.nn.utils.clip_grad_norm_(group.parameters(), 0.5)
    optimizer.step()
