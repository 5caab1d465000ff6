"""A hopper that should run forwards: a batch of them, as functions of PyTorch."""

from pathlib import Path

import diffmj
import diffmj.torch
import torch
from torch import Tensor

SCENE = Path(__file__).parents[2] / "scenarios" / "hopper.xml"
NSTEP = 4  # steps of MuJoCo with the same controls: 16 ms


class Hoppers:
    """A batch of hoppers, each put back to a start when it has fallen or its time is over."""

    nobs, nctrl = 11, 3

    def __init__(self, count: int, length: int = 250, seed: int = 0, nthread: int = 0):
        """length: of an episode, in decisions."""
        self.sim = diffmj.Simulator(SCENE, nthread=nthread)
        rollout = diffmj.torch.Rollout(self.sim, ("qpos", "qvel"), on_failure="nan")
        self._rollout = torch.func.vmap(lambda q, v, u: rollout(q, v, ctrl=u, nstep=NSTEP))
        self.count, self.length = count, length
        self._random = torch.Generator().manual_seed(seed)
        self.qpos, self.qvel = self.starts()
        # episodes end at different times
        self.age = torch.randint(0, length, (count,), generator=self._random)

    def starts(self) -> tuple[Tensor, Tensor]:
        def noise(n: int) -> Tensor:
            return torch.randn((self.count, n), generator=self._random, dtype=torch.float64)

        start = torch.tensor(self.sim.default_state().qpos.copy())
        return start + 0.02 * noise(self.sim.nq), 0.05 * noise(self.sim.nv)

    def observe(self) -> Tensor:
        """All but the place along x."""
        return torch.cat((self.qpos[:, 1:], self.qvel.clamp(-10, 10)), dim=1)

    def detach(self) -> None:
        """The end of a horizon: gradients do not go further back."""
        self.qpos, self.qvel = self.qpos.detach(), self.qvel.detach()

    def step(self, ctrl: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Reward, what is observed then, whether it fell, whether its time is over."""
        out = self._rollout(self.qpos, self.qvel, ctrl.clamp(-1, 1))
        ok = out.ok[:, None]
        qpos = torch.where(ok, out.qpos[:, -1], self.qpos.detach())
        qvel = torch.where(ok, out.qvel[:, -1], torch.zeros_like(self.qvel))
        height, pitch = qpos[:, 1] + 1.2, qpos[:, 2]
        # smooth terms say what leads to a fall, which has no gradient itself
        posture = 1 - (pitch / 0.5) ** 2 - 20 * (1 - height).clamp(min=0) ** 2
        reward = qvel[:, 0].clamp(max=4) + posture - 0.05 * ctrl.square().sum(1)
        fell = ~out.ok | (height < 0.8) | (pitch.abs() > 0.6)
        self.age = self.age + 1
        over = (self.age >= self.length) & ~fell
        self.qpos, self.qvel = qpos, qvel
        seen = self.observe()
        # those that are put back
        again = (fell | over)[:, None]
        start = self.starts()
        self.qpos = torch.where(again, start[0], qpos)
        self.qvel = torch.where(again, start[1], qvel)
        self.age = torch.where(again[:, 0], 0, self.age)
        return reward, seen, fell, over


def network(nin: int, nout: int) -> torch.nn.Sequential:
    """Two hidden layers of 64, normalised, as in the paper of SHAC."""
    layers: list[torch.nn.Module] = []
    for a, b in ((nin, 64), (64, 64)):
        layers += [torch.nn.Linear(a, b), torch.nn.ELU(), torch.nn.LayerNorm(b)]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(64, nout))
    with torch.no_grad():
        net[-1].weight *= 0.1
    return net.double()


class Policy(torch.nn.Module):
    """A normal distribution whose mean is a network's, squashed to the range of the controls."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = network(Hoppers.nobs, Hoppers.nctrl)
        self.log_std = torch.nn.Parameter(torch.full((Hoppers.nctrl,), -1.0, dtype=torch.float64))

    def forward(self, seen: Tensor) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.mean(seen), self.log_std.exp())


def evaluate(policy: Policy, length: int = 250, count: int = 16) -> tuple[float, float]:
    """Mean return of an episode without noise, and distance [m], from starts that are always the
    same."""
    task = Hoppers(count, length=length + 1, seed=1234)
    task.age.zero_()
    alive = torch.ones(count, dtype=torch.bool)
    total, distance = torch.zeros(count).double(), torch.zeros(count).double()
    with torch.no_grad():
        for _ in range(length):
            reward, _, fell, _ = task.step(policy(task.observe()).mean.tanh())
            total += alive * reward
            distance = torch.where(alive & ~fell, task.qpos[:, 0], distance)
            alive &= ~fell
    return float(total.mean()), float(distance.mean())
