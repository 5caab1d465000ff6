"""Short-horizon actor-critic [Xu22]: the policy follows the gradient of the rewards of a short
horizon through the simulator, and of a critic's value at its end."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor

from .task import Hoppers, Policy, network

GAMMA, LAMBDA = 0.99, 0.95


def train(count: int = 64, horizon: int = 24, seed: int = 0) -> Iterator[tuple[Policy, int]]:
    """Yields the policy and the number of decisions so far, after every iteration."""
    torch.manual_seed(seed)
    task, policy, critic = Hoppers(count, seed=seed), Policy(), network(Hoppers.nobs, 1)
    target = copy.deepcopy(critic)
    actor_optimizer = torch.optim.Adam(policy.parameters(), 1e-3, betas=(0.7, 0.95))
    critic_optimizer = torch.optim.Adam(critic.parameters(), 1e-3, betas=(0.7, 0.95))
    decisions = 0
    while True:
        task.detach()
        gain, discount = torch.zeros(count).double(), torch.ones(count).double()
        rows: dict[str, list[Tensor]] = {name: [] for name in ("seen", "reward", "next", "cut")}
        for k in range(horizon):
            seen = task.observe()
            reward, after, fell, over = task.step(policy(seen).rsample().tanh())
            value = target(after)[:, 0] * ~fell
            # the value stands for the rest where an episode or the horizon ends
            ends = fell | over | torch.tensor(k == horizon - 1)
            gain = gain + discount * (reward + torch.where(ends, GAMMA * value, 0.0))
            discount = torch.where(fell | over, 1.0, discount * GAMMA)
            for name, x in zip(rows, (seen, reward, GAMMA * value, ends), strict=True):
                rows[name].append(x.detach())
        actor_optimizer.zero_grad()
        (-gain.mean() / horizon).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        actor_optimizer.step()
        fit_critic(critic, critic_optimizer, {name: torch.stack(x) for name, x in rows.items()})
        for old, new in zip(target.parameters(), critic.parameters(), strict=True):
            old.data.lerp_(new.data, 0.6)
        decisions += count * horizon
        yield policy, decisions


def fit_critic(critic: torch.nn.Module, optimizer: torch.optim.Adam, rows: dict) -> None:
    """To TD(λ) returns of the horizon."""
    returns, following = [], torch.zeros_like(rows["reward"][0])
    for k in reversed(range(len(rows["reward"]))):
        reward, value, ends = rows["reward"][k], rows["next"][k], rows["cut"][k]
        mixed = (1 - LAMBDA) * value + LAMBDA * GAMMA * following
        following = reward + torch.where(ends, value, mixed)
        returns.append(following)
    seen, goals = rows["seen"].flatten(0, 1), torch.stack(returns[::-1]).flatten()
    for _ in range(8):
        for batch in torch.randperm(len(goals)).chunk(4):
            optimizer.zero_grad()
            (critic(seen[batch])[:, 0] - goals[batch]).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
            optimizer.step()
