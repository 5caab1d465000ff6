"""A hopper learns to keep on its leg, in PyTorch: short-horizon actor-critic (SHAC).

The policy follows the gradient of the rewards of 24 decisions through MuJoCo, contacts included,
and of a critic's value of where they end; 64 hoppers are one call of `vmap`, on all cores.
"""

from pathlib import Path

import diffmj
import diffmj.torch
import torch
from torch.func import vmap
from torch.nn import ELU, LayerNorm, Linear, Sequential

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)  # the networks are small; rollouts have threads of their own
torch.manual_seed(0)
SCENE = Path(__file__).parents[1] / "scenarios" / "hopper.xml"
N, HORIZON, NSTEP, GAMMA = 64, 24, 4, 0.99  # hoppers, decisions, steps of MuJoCo in each
sim = diffmj.Simulator(SCENE)
rollout = diffmj.torch.Rollout(sim, ("qpos", "qvel"))
simulate = vmap(lambda qpos, qvel, ctrl: rollout(qpos, qvel, ctrl=ctrl, nstep=NSTEP))


def network(nout):
    return Sequential(Linear(11, 64), ELU(), LayerNorm(64), Linear(64, 64), ELU(), Linear(64, nout))


def starts():
    return 0.02 * torch.randn(N, sim.nq), 0.05 * torch.randn(N, sim.nv)  # upright


def observe(qpos, qvel):
    return torch.cat((qpos[:, 1:], qvel), dim=1)  # all but the place


def decide(qpos, qvel):
    """What follows of a decision: the state, the reward, and whether the hopper fell."""
    ctrl = torch.tanh(policy(observe(qpos, qvel)) + 0.3 * torch.randn(N, sim.nu))
    out = simulate(qpos, qvel, ctrl)
    qpos, qvel = out.qpos[:, -1], out.qvel[:, -1]
    height, pitch = 1.2 + qpos[:, 1], qpos[:, 2]
    posture = 1 - (pitch / 0.5) ** 2 - 20 * (1 - height).clamp(min=0) ** 2
    reward = qvel[:, 0].clamp(max=4) + posture - 0.05 * ctrl.square().sum(1)
    return qpos, qvel, reward, (height < 0.8) | (pitch.abs() > 0.6)


policy, critic, target = network(sim.nu), network(1), network(1)
adam = torch.optim.Adam(policy.parameters(), 1e-3, betas=(0.7, 0.95))
critic_adam = torch.optim.Adam(critic.parameters(), 1e-3)
(qpos, qvel), lives = starts(), []
for i in range(41):
    qpos, qvel = qpos.detach(), qvel.detach()  # a horizon ends
    seen, rewards, values, falls = [], [], [], []
    for _ in range(HORIZON):
        seen.append(observe(qpos, qvel).detach())
        qpos, qvel, reward, fell = decide(qpos, qvel)
        rewards.append(reward)
        values.append(target(observe(qpos, qvel))[:, 0] * ~fell)
        falls.append(fell)
        start, fell = starts(), fell[:, None]
        qpos, qvel = torch.where(fell, start[0], qpos), torch.where(fell, start[1], qvel)
    goals = [values[-1]]
    for reward, fell in zip(rewards[::-1], falls[::-1], strict=True):
        goals.append(reward + GAMMA * torch.where(fell, 0, goals[-1]))
    adam.zero_grad()
    (-goals[-1].mean() / HORIZON).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    adam.step()
    seen, goals = torch.cat(seen), torch.cat(goals[:0:-1]).detach()
    for batch in torch.randperm(len(seen)).repeat(8).chunk(32):
        critic_adam.zero_grad()
        (critic(seen[batch])[:, 0] - goals[batch]).square().mean().backward()
        critic_adam.step()
    target.load_state_dict(critic.state_dict())
    lives.append(NSTEP * sim.timestep * N * HORIZON / max(1, int(torch.stack(falls).sum())))
    if i % 8 == 0:
        print(f"  {i:2d}: reward {torch.stack(rewards).mean():5.2f}, {lives[-1]:5.2f} s to a fall")
assert sum(lives[-5:]) > 2 * sum(lives[:5]), "the hoppers do not stand longer"
