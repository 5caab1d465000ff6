"""The hopper of 05_torch_policy.py in JAX: 64 of them learn to leap forwards, with Optax.

The loss is what 48 decisions of a policy lead to; `scan` makes the closed loop, `vmap` the batch of
initial states: one call of all 64 hoppers in every decision, on all cores.
"""

from pathlib import Path

import diffmj
import diffmj.jax
import jax
import jax.numpy as jnp
import numpy as np
import optax

jax.config.update("jax_enable_x64", True)
SCENE = Path(__file__).parents[1] / "scenarios" / "hopper.xml"
N, HORIZON, NSTEP = 64, 48, 4  # hoppers, decisions, steps of MuJoCo in each

sim = diffmj.Simulator(SCENE)
rollout = diffmj.jax.Rollout(sim, ("qpos", "qvel"))
rng = np.random.default_rng(0)


def layer(nin, nout):
    return {"w": rng.standard_normal((nin, nout)) / np.sqrt(nin), "b": np.zeros(nout)}


def decide(policy, state, _):
    """The state and the reward that follow of a decision."""
    qpos, qvel = state
    x = jnp.concatenate((qpos[1:], qvel))  # all but the place
    for part in policy[:-1]:
        x = jnp.tanh(x @ part["w"] + part["b"])
    ctrl = jnp.tanh(0.1 * x @ policy[-1]["w"] + policy[-1]["b"])
    out = rollout(qpos, qvel, ctrl=ctrl, nstep=NSTEP)
    qpos, qvel = out.qpos[-1], out.qvel[-1]
    height, pitch = 1.2 + qpos[1], qpos[2]
    posture = 1 - (pitch / 0.5) ** 2 - 20 * jnp.maximum(0, 1 - height) ** 2
    reward = jnp.minimum(qvel[0], 4) + posture - 0.05 * jnp.sum(ctrl**2)
    return (qpos, qvel), reward


def loss(policy, qpos, qvel):
    _, rewards = jax.lax.scan(lambda *x: decide(policy, *x), (qpos, qvel), length=HORIZON)
    return -jnp.mean(rewards)


@jax.jit
@jax.value_and_grad
def mean_loss(policy, qpos, qvel):
    return jnp.mean(jax.vmap(loss, in_axes=(None, 0, 0))(policy, qpos, qvel))


policy = [layer(11, 64), layer(64, 64), layer(64, sim.nu)]
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))
memory = optimizer.init(policy)
history = []
for i in range(31):
    qpos = sim.default_state().qpos + 0.02 * rng.standard_normal((N, sim.nq))
    value, gradient = mean_loss(policy, qpos, 0.05 * rng.standard_normal((N, sim.nv)))
    updates, memory = optimizer.update(gradient, memory)
    policy = optax.apply_updates(policy, updates)
    history.append(-float(value))
    if i % 10 == 0:
        print(f"  {i:2d}: mean reward {history[-1]:6.2f} over {HORIZON} decisions of {N} hoppers")
assert history[-1] > 1.8 and history[-1] > history[0] + 0.5, "the hoppers do not learn"
