"""Recordings, segments of them, and the files they come from. The C++ tests have every rule."""

import dataclasses
import io
import pickle
import re
import struct
from pathlib import Path

import diffmj
import mujoco
import numpy as np
import pytest

from experiments import contactnets

SCENE = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="box" pos="0 0 .17" euler="5 10 15"><freejoint name="free"/>
      <geom type="box" size=".1 .1 .1"/></body>
    <body name="arm" pos="2 0 2"><joint name="elbow" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/><site name="tip" pos=".3 0 0"/></body>
  </worldbody>
  <actuator><motor name="motor" joint="elbow"/></actuator>
  <sensor><accelerometer name="acc" site="tip"/><jointpos name="angle" joint="elbow"/></sensor>
</mujoco>
"""
EVERY, ROWS = 2, 31


@pytest.fixture(scope="module")
def sim() -> diffmj.Simulator:
    return diffmj.Simulator(SCENE).tightened()  # no warm start, which a segment does not have


@pytest.fixture(scope="module")
def traj(sim) -> diffmj.Trajectory:
    ctrl = np.repeat(0.3 * np.sin(0.2 * np.arange(ROWS - 1)), EVERY)[:, None]
    return sim.rollout(qvel=[0.1, 0.2, -0.5, 1, 2, 3, 0.5], ctrl=ctrl, sensors=True)


@pytest.fixture(scope="module")
def recording(traj) -> diffmj.Recording:
    recording = diffmj.Recording.from_trajectory(traj, EVERY, name="fall")
    poses = {"tip": traj.site_xpos[::EVERY, 0]}
    return dataclasses.replace(recording, sites=poses, body_quat={"arm": traj.xquat[::EVERY, 2]})


def assert_same(a: diffmj.Recording, b: diffmj.Recording, name: bool = True) -> None:
    assert a.name == b.name or not name
    x, y = a._arrays(), b._arrays()
    assert sorted(x) == sorted(y)
    for key in x:
        assert x[key].shape == y[key].shape, key
        assert np.array_equal(x[key], y[key], equal_nan=True), key


def test_of_a_trajectory(traj, recording):
    assert len(recording) == ROWS
    assert np.array_equal(recording.qpos, traj.qpos[::EVERY])
    assert np.array_equal(recording.sensors, traj.sensordata[::EVERY])
    assert np.array_equal(recording.sites["tip"], traj.site_xpos[::EVERY, 0])
    assert np.isnan(recording.ctrl[-1]).all() and not np.isnan(recording.ctrl[:-1]).any()
    assert repr(recording).startswith("Recording('fall': 31 rows, 0.12 s; qpos, qvel, ctrl")
    with pytest.raises(diffmj.InputError, match="ctrl changes between steps 0 and 2"):
        diffmj.Recording.from_trajectory(traj, 4)
    with pytest.raises(diffmj.InputError, match="every is 0"):
        diffmj.Recording.from_trajectory(traj, 0)


def test_a_batch_is_no_recording(sim):
    batch = sim.rollout(ctrl=np.zeros((2, 4, 1)))
    with pytest.raises(diffmj.InputError, match="is a batch"):
        diffmj.Recording.from_trajectory(batch)


def test_arrays_are_copied_and_read_only(sim):
    qpos = np.zeros((2, 8))
    qpos[:, 3] = 1
    recording = diffmj.Recording([0, 1], qpos=qpos, sensors={"angle": [1, 2]}, weights={"qpos": 2})
    qpos[0, 0] = 5
    assert recording.qpos[0, 0] == 0
    assert recording.sensors["angle"].shape == (2, 1)
    for array in (recording.time, recording.qpos, recording.sensors["angle"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        recording.sensors["x"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        recording.qpos = qpos
    changed = dataclasses.replace(recording, qpos=None, weights=None)
    assert changed.qpos is None
    assert np.array_equal(changed.sensors["angle"], [[1], [2]])


def test_masked_entries_are_missing():
    masked = np.ma.masked_array([[1, 2], [3, 4]], [[0, 1], [0, 0]])
    recording = diffmj.Recording([0, 1], qvel=masked)
    assert np.array_equal(recording.qvel, [[1, np.nan], [3, 4]], equal_nan=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"time": [[0, 1]]}, r"time has shape \(1, 2\)"),
        ({"time": [0, 0]}, r"recording 'x': time\[1\] is 0, not after time\[0\] = 0; sort"),
        ({"qpos": np.zeros((3, 1))}, r"qpos has shape \(3, 1\), expected \(2, width\)"),
        ({"qpos": "abc"}, "qpos cannot be converted"),
        ({"qvel": [1, np.inf]}, r"qvel\[1, 0\] is inf"),
        ({"qvel": [1, 1], "ctrl": [np.nan, 1]}, r"ctrl\[0, 0\] is missing"),
        ({"sites": [1, 2]}, "sites is .*expected a dictionary"),
        ({"sites": {"tip": np.zeros((1, 3))}}, r"site:tip has shape \(1, 3\)"),
        ({"weights": {"qpos": 1}}, "weights of 'qpos'"),
        ({"qvel": [1, 1], "weights": {"qvel": -1}}, r"weights of qvel\[0, 0\] is -1"),
        ({"qvel": [1, 1], "weights": {"qvel": [1, 2, 3]}}, r"weights of qvel have shape \(3,\)"),
        ({"name": 3}, "name is 3"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(diffmj.InputError, match=message):
        diffmj.Recording(**({"time": [0, 1], "name": "x"} | arguments))


def test_errors_of_a_model(sim, recording):
    wrong = dataclasses.replace(recording, qpos=recording.qpos[:, 1:])
    for use in (
        lambda: wrong.validate(sim),
        lambda: diffmj.segments(sim, wrong, 1),
        lambda: diffmj.estimate_velocities(sim, wrong),
        lambda: diffmj.resample(sim, wrong, 0.01),
    ):
        with pytest.raises(diffmj.InputError, match="'fall': qpos has 31 x 7 numbers, expected 31"):
            use()
    unknown = dataclasses.replace(recording, sites={"tap": recording.sites["tip"]})
    with pytest.raises(diffmj.InputError, match="no site 'tap'; it has 'tip'"):
        unknown.validate(sim)


def test_quaternions_are_normalised(sim, recording):
    qpos = recording.qpos.copy()
    qpos[:, 3:7] *= 1.0005
    near = dataclasses.replace(recording, qpos=qpos).validate(sim)
    np.testing.assert_allclose(near.qpos, recording.qpos, atol=1e-15)
    qpos[:, 3:7] *= 2
    with pytest.raises(diffmj.InputError, match=r"qpos\[0, 3:7\], the quaternion of joint 'free'"):
        dataclasses.replace(recording, qpos=qpos).validate(sim)


def test_csv_round_trip(sim, recording, tmp_path):
    weights = {"qpos": np.arange(ROWS), "site:tip": np.ones((1, 3)), "qvel": np.full(ROWS, 0.1)}
    recording = dataclasses.replace(recording, weights=weights)
    recording.to_csv(tmp_path / "fall.csv")
    assert_same(diffmj.Recording.from_csv(tmp_path / "fall.csv", sim), recording)


def test_csv_errors(sim, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("time,qpos_elbow\n0,1\n0.1,?\n")
    with pytest.raises(diffmj.InputError, match=r"x\.csv, line 3, column 'qpos_elbow': '\?'"):
        diffmj.Recording.from_csv(path, sim)
    with pytest.raises(diffmj.InputError, match="the file does not exist"):
        diffmj.Recording.from_csv(tmp_path / "y.csv", sim)


def test_npz_round_trip(recording, tmp_path):
    named = dataclasses.replace(
        recording,
        sensors={"acc": recording.sensors[:, :3]},
        weights={"qpos": 2, "qvel": np.arange(7.0)[None], "sensor:acc": np.arange(ROWS)},
    )
    for x in (recording, named):
        x.to_npz(tmp_path / "fall")
        assert_same(diffmj.Recording.from_npz(tmp_path / "fall"), x)
        assert_same(pickle.loads(pickle.dumps(x)), x)


def test_npz_of_others(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, time=np.arange(3.0), qvel=np.ones((3, 2)))
    assert diffmj.Recording.from_npz(path).name == "other"
    for arrays, message in (
        ({"qvel": np.ones(3)}, "no 'time'"),
        ({"time": np.arange(3.0), "speed": np.ones(3)}, "'speed' is not a quantity"),
        ({"time": np.arange(3.0), "qvel": np.ones(2)}, "qvel has shape"),
        ({"time": np.array([None])}, "no NPZ file of numbers"),
        (
            {"sensor:a": np.ones(1), "sensordata": np.ones(1), "time": np.ones(1)},
            "sensordata and single sensors",
        ),
    ):
        np.savez(path, **arrays)
        with pytest.raises(diffmj.InputError, match=f"other.npz: .*{message}"):
            diffmj.Recording.from_npz(path)
    path.write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(diffmj.InputError, match="no NPZ file"):
        diffmj.Recording.from_npz(path)
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(diffmj.InputError, match="no NPZ file"):
        diffmj.Recording.from_npz(tmp_path / "x.npy")
    with pytest.raises(diffmj.InputError, match="no NPZ file"):
        diffmj.Recording.from_npz(tmp_path / "missing.npz")
    with pytest.raises(diffmj.InputError, match="cannot be written"):
        diffmj.Recording([0]).to_npz(tmp_path / "no folder" / "x.npz")


def test_segments_of_a_rollout_have_no_residual(sim, recording):
    all_segments = diffmj.segments(sim, recording, 5, stride=3)
    assert [x.first for x in all_segments] == list(range(0, 26, 3))
    for segment in all_segments:
        assert (segment.recording, segment.length, segment.substeps) == (0, 5, EVERY)
        assert segment.inputs["ctrl"].shape == (5 * EVERY, 1)
        residuals = segment.residuals(sim.rollout(**segment.inputs))
        assert list(residuals) == [
            "qpos", "qvel", "sensor:acc", "sensor:angle", "site:tip", "body_quat:arm",
        ]  # fmt: skip
        for target, residual in zip(segment.targets, residuals.values(), strict=True):
            assert residual.shape == target.weights.shape
            assert np.abs(residual).max() < 1e-9, (target.name, segment)
            lost = 3 if target.name == "sensor:acc" else 0
            assert np.sum(target.weights == 0) == lost  # the last control differs


def test_targets_say_where_they_are(sim, recording):
    segment = diffmj.segments(sim, recording, 2)[1]
    traj = sim.rollout(**segment.inputs)
    for target in segment.targets:
        simulated = getattr(traj, target.observable)[::EVERY].reshape(3, -1)
        width = target.values.shape[1]
        simulated = simulated[:, target.offset : target.offset + width]
        known = slice(0, 2) if target.name == "sensor:acc" else slice(0, 3)
        np.testing.assert_allclose(simulated[known], target.values[known], atol=1e-9)
        assert target.quaternion == (target.name == "body_quat:arm")
    some = diffmj.segments(sim, recording, 2, targets=["qvel"])[0]
    assert [x.name for x in some.targets] == ["qvel"]
    assert repr(some) == "Segment(recording 0, rows 0 to 2, 2 steps each)"


def test_segments_near_contact(sim, recording):
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    touching = []
    for qpos in recording.qpos:
        data.qpos = qpos
        mujoco.mj_fwdPosition(model, data)
        touching.append(data.ncon > 0)
    expected = [i for i in range(ROWS - 2) if any(touching[i : i + 3])]
    assert 0 < len(expected) < ROWS - 2
    found = diffmj.segments(sim, [recording], 2, stride=1, rule="contact")
    assert [x.first for x in found] == expected
    wide = diffmj.segments(sim, [recording], 2, stride=1, rule="contact", margin=1.0)
    assert len(wide) == ROWS - 2


def test_segments_of_several_recordings(sim, recording):
    found = diffmj.segments(sim, [recording, recording], 15)
    assert [(x.recording, x.first) for x in found] == [(0, 0), (0, 15), (1, 0), (1, 15)]


def test_missing_rows(sim, recording):
    qpos = recording.qpos.copy()
    qpos[4] = np.nan
    gappy = dataclasses.replace(recording, qpos=qpos)
    found = diffmj.segments(sim, gappy, 2, max_missing=1)
    assert [x.first for x in found][:3] == [0, 2, 6]
    target = found[1].targets[0]
    assert np.all(target.weights[2] == 0) and np.all(target.weights[1] == 1)
    assert np.array_equal(target.values[2], [0, 0, 0, 1, 0, 0, 0, 0])
    strict = diffmj.segments(sim, gappy, 2, max_missing=0)
    assert [x.first for x in strict][:3] == [0, 6, 8]


def test_errors_of_segments(sim, recording):
    with pytest.raises(diffmj.InputError, match="length is 0"):
        diffmj.segments(sim, recording, 0)
    with pytest.raises(diffmj.InputError, match="rule 'some' is not known; use all or contact"):
        diffmj.segments(sim, recording, 1, rule="some")
    with pytest.raises(diffmj.InputError, match="margin is 'x'"):
        diffmj.segments(sim, recording, 1, margin="x")
    with pytest.raises(diffmj.InputError, match="targets is 'qpos'"):
        diffmj.segments(sim, recording, 1, targets="qpos")
    with pytest.raises(diffmj.InputError, match="recordings is None"):
        diffmj.segments(sim, None, 1)
    with pytest.raises(diffmj.InputError, match=r"is not a diffmj\.Recording"):
        diffmj.segments(sim, [recording.qpos], 1)
    with pytest.raises(diffmj.InputError, match=r"qvel is not recorded.*estimate_velocities"):
        diffmj.segments(sim, dataclasses.replace(recording, qvel=None), 1)
    coarse = diffmj.Simulator(SCENE.replace('"0.002"', '"0.003"'))
    with pytest.raises(diffmj.InputError, match=r"timestep of 0\.003.*resample\(recording, 0\.003"):
        diffmj.segments(coarse, recording, 1)
    assert len(diffmj.segments(coarse, diffmj.resample(coarse, recording, 0.003), 1)) == 40
    segment = diffmj.segments(sim, recording, 1)[0]
    with pytest.raises(diffmj.InputError, match="has 3 steps, expected 2"):
        segment.residuals(sim.rollout(nstep=3))
    with pytest.raises(diffmj.InputError, match="is a batch"):
        segment.residuals(sim.rollout(ctrl=np.zeros((2, 2, 1))))


def test_velocities(sim, recording):
    without = dataclasses.replace(recording, qvel=None)
    backward = diffmj.estimate_velocities(sim, without)
    model = mujoco.MjModel.from_xml_string(SCENE)
    expected = np.zeros(model.nv)
    mujoco.mj_differentiatePos(model, expected, 0.004, recording.qpos[0], recording.qpos[1])
    np.testing.assert_allclose(backward.qvel[1], expected, rtol=1e-12)
    assert np.isnan(backward.qvel[0]).all()
    central = diffmj.estimate_velocities(sim, without, "central")
    assert np.isnan(central.qvel[[0, -1]]).all()
    mujoco.mj_differentiatePos(model, expected, 0.008, recording.qpos[0], recording.qpos[2])
    np.testing.assert_allclose(central.qvel[1], expected, rtol=1e-12)
    with pytest.raises(diffmj.InputError, match="backward or central"):
        diffmj.estimate_velocities(sim, without, "forward")


def test_resample(sim, recording):
    fine = diffmj.resample(sim, recording, 0.001)
    assert len(fine) == 4 * (ROWS - 1) + 1
    np.testing.assert_allclose(fine.qpos[::4], recording.qpos, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(fine.qpos[:, 3:7], axis=1), 1, atol=1e-12)
    assert np.array_equal(fine.ctrl[4:8], np.repeat(recording.ctrl[1:2], 4, axis=0))
    with pytest.raises(diffmj.InputError, match="dt is 'x'"):
        diffmj.resample(sim, recording, "x")
    with pytest.raises(diffmj.InputError, match="dt is 0"):
        diffmj.resample(sim, recording, 0)


def test_split():
    training, held_out = diffmj.split(list("abcdefghij"), 0.3)
    assert held_out == ["a", "c", "h"]  # on every machine
    assert sorted(training + held_out) == list("abcdefghij")
    with pytest.raises(diffmj.InputError, match="share is 1"):
        diffmj.split([1, 2], 1)


def toss_file(rows: np.ndarray, kind: str = "DoubleStorage", extra: bytes = b"") -> bytes:
    """A tensor in PyTorch's old format, written by hand in the opcodes of protocol 2."""

    def text(x: str) -> bytes:
        return b"X" + struct.pack("<I", len(x)) + x.encode()

    def integer(x: int) -> bytes:
        return b"J" + struct.pack("<i", x)

    def integers(*x: int) -> bytes:
        return b"(" + b"".join(map(integer, x)) + b"t"

    n, (_, length, width) = rows.size, rows.shape
    storage = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text("7") + text("cpu")
    storage += integer(n) + b"NtQ"
    tensor = b"\x80\x02" + extra + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(0)
    tensor += integers(1, length, width) + integers(n, width, 1) + b"\x89"
    tensor += b"ccollections\nOrderedDict\n)RtR."
    out = io.BytesIO()
    for x in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True}):
        pickle.dump(x, out, protocol=2)
    out.write(tensor)
    pickle.dump(["7"], out, protocol=2)
    out.write(struct.pack("<q", n) + rows.astype("<f8").tobytes())
    return out.getvalue()


def toss_rows(length: int = 12) -> np.ndarray:
    """A cube that turns about its own z axis while it flies."""
    time = contactnets.INTERVAL * np.arange(length)
    rows = np.zeros((1, length, 19))
    rows[0, :, 0] = 3 * time
    rows[0, :, 2] = 2
    rows[0, :, 3], rows[0, :, 6] = np.cos(time), np.sin(time)
    rows[0, :, 7], rows[0, :, 12] = 3, 2
    return rows


def test_contactnets(tmp_path):
    rows = toss_rows()
    for name in ("10.pt", "2.pt"):
        (tmp_path / name).write_bytes(toss_file(rows))
    assert np.array_equal(contactnets.read_tensor(tmp_path / "2.pt"), rows)
    tosses = contactnets.read(tmp_path)
    assert [x.name for x in tosses] == ["toss 2", "toss 10"]
    toss = tosses[0]
    np.testing.assert_allclose(np.diff(toss.time), 1 / 148)
    np.testing.assert_allclose(toss.qpos[:, 2], 2 * 0.0524)
    np.testing.assert_allclose(toss.qvel[0], [3 * 0.0524, 0, 0, 0, 0, 2])
    cube = "<body><freejoint/><geom type='box' size='.05 .05 .05'/></body>"
    sim = diffmj.Simulator(f"<mujoco><worldbody>{cube}</worldbody></mujoco>")
    velocities = diffmj.estimate_velocities(sim, dataclasses.replace(toss, qvel=None)).qvel
    np.testing.assert_allclose(velocities[1:], toss.qvel[1:], atol=1e-12)


def test_contactnets_runs_nothing(tmp_path):
    path, witness = tmp_path / "0.pt", tmp_path / "witness"
    # os.system("touch witness"), left on the stack before the tensor
    command = f"touch {witness}"
    call = b"cos\nsystem\n(X" + struct.pack("<I", len(command)) + command.encode() + b"tR0"
    path.write_bytes(toss_file(toss_rows(), extra=call))
    assert contactnets.read_tensor(path).shape == (1, 12, 19)
    assert not witness.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (pickle.dumps(5), "magic number"),
        (toss_file(toss_rows(), kind="FloatStorage"), "not float64"),
        (toss_file(toss_rows())[:-8], "size is wrong"),
        (toss_file(toss_rows())[:200], "cannot be read|ends early"),
        (toss_file(np.zeros((1, 5, 18))), r"shape \(1, 5, 18\)"),
        (toss_file(np.ones((1, 5, 19))), "applied wrench"),
    ],
)
def test_contactnets_errors(content, message, tmp_path):
    path = tmp_path / "0.pt"
    path.write_bytes(content)
    with pytest.raises(diffmj.InputError, match=message):
        contactnets.read_toss(path)


def test_contactnets_needs_files(tmp_path):
    with pytest.raises(diffmj.InputError, match="there are no files"):
        contactnets.read(tmp_path)


def test_the_documentation_runs(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "identification.md").read_text()
    section = page[page.index("## Recordings") :].split("\n## ")[0]
    code = "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))
    assert "diffmj.segments" in code
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "identification.md", "exec"), {})
