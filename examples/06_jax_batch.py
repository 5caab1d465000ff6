"""One push for 64 starts, in JAX: a puck comes to rest at a goal wherever it lay.

The controls are a linear function of the start, learned by the gradient through the push and the
friction of the floor: `vmap` runs the 64 rollouts in one call, on all cores.
"""

import diffmj
import diffmj.jax
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

MJCF = """
<mujoco>
  <option timestep="0.005"/>
  <default><geom solref="0.02 1" solimp="0 0.95 0.01 0.5 2" friction="0.2 0.005 0.0001"/></default>
  <worldbody>
    <geom type="plane" size="3 3 0.1"/>
    <body name="pusher" pos="-0.2 0 0.05">
      <joint name="x" type="slide" axis="1 0 0" damping="2"/>
      <geom type="sphere" size="0.04" mass="0.5" friction="0"/>
    </body>
    <body name="puck" pos="0 0 0.02">
      <joint name="puck" type="slide" axis="1 0 0" frictionloss="0.3" damping="0.2"/>
      <geom type="cylinder" size="0.06 0.02" mass="0.3" contype="2" conaffinity="1"/>
    </body>
  </worldbody>
  <actuator><motor joint="x" gear="5" ctrlrange="-1 1"/></actuator>
</mujoco>
"""
NSTEP, PUSH, GOAL = 160, 60, 0.5  # steps, steps with a control, [m]

sim = diffmj.Simulator(MJCF)
rollout = diffmj.jax.Rollout(sim, outputs=("qpos",))
starts = jnp.asarray(np.random.default_rng(0).uniform(0.0, 0.2, 64))  # of the puck [m]


def miss(policy, start):
    """Distance of the puck from the goal at the end."""
    place = (start - 0.1) / 0.1  # from -1 to 1
    ctrl = jnp.zeros((NSTEP, sim.nu)).at[:PUSH, 0].set(policy["bias"] + policy["gain"] * place)
    return rollout(qpos=jnp.array([0.0, start]), ctrl=ctrl).qpos[-1, 1] - GOAL


@jax.jit
@jax.value_and_grad
def loss(policy):
    return jnp.mean(jax.vmap(miss, in_axes=(None, 0))(policy, starts) ** 2)


def adam(policy, gradient, mean, square, n, rate=0.01):
    """A step of what optax.adam does."""
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, square, gradient)
    size = jax.tree.map(lambda s: jnp.sqrt(s / (1 - 0.999**n)) + 1e-8, square)
    step = jax.tree.map(lambda m, s: rate * m / (1 - 0.9**n) / s, mean, size)
    return jax.tree.map(jnp.subtract, policy, step), mean, square


policy = {"bias": 0.5 * jnp.ones(PUSH), "gain": jnp.zeros(PUSH)}
mean = square = jax.tree.map(jnp.zeros_like, policy)
for i in range(101):
    value, gradient = loss(policy)
    if i % 20 == 0:
        print(f"  {i:3d}: {1e3 * jnp.sqrt(value):6.1f} mm from the goal, root mean square of 64")
    policy, mean, square = adam(policy, gradient, mean, square, i + 1)
assert jnp.sqrt(value) < 0.03, "the pucks do not come to the goal"
