"""The fit of the rating of places: a clone of a few photographs is read, composed, fitted on and reported."""

import re
import subprocess
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward.experts.region_rating import _Fault
from editcritic.reward.experts.region_statistics import region_statistics
from editcritic.reward.queries.kinds import RegionChange
from studies.real_edits.clones import Clones
from studies.real_edits.command import main
from studies.real_edits.composed_fills import fills
from studies.real_edits.composites import Photographs, compose
from studies.real_edits.region_fit import HONEST, Measured, fit_faults, may_be_fault, table

_CHANGES = ("removed", "new", "recoloured", "text")


@pytest.fixture(scope="module")
def clones(tmp_path_factory):
    """A clone with two photographs a split, each with two people's segments: ellipses."""
    import scipy.io

    folder = tmp_path_factory.mktemp("clones")
    data = folder / "BIDS+BSDS500/BSDS500/data"
    pictures = {"train": ("chelsea", "coffee"), "test": ("astronaut", "rocket")}
    for split, names in pictures.items():
        for kind in ("images", "groundTruth"):
            (data / kind / split).mkdir(parents=True)
        for name in names:
            picture = _small(name)
            PIL.Image.fromarray(picture).save(data / f"images/{split}/{name}.jpg", quality=95)
            y, x = np.mgrid[: picture.shape[0], : picture.shape[1]]
            people = np.empty((1, 2), object)
            for person in range(2):
                inside = ((x - 90) / 35) ** 2 + ((y - 70 - 10 * person) / 25) ** 2 < 1
                people[0, person] = {"Segmentation": (1 + inside).astype(np.uint16)}
            scipy.io.savemat(data / f"groundTruth/{split}/{name}.mat", {"groundTruth": people})
    (data / "images/train/Thumbs.db").write_bytes(b"no photograph")
    clone = folder / "BIDS+BSDS500"
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Photographs"]):
        command = ["git", "-C", clone, "-c", "user.name=A", "-c", "user.email=a@localhost", *arguments]
        subprocess.run(command, check=True)
    return folder


def test_the_command_prints_a_report_and_a_table_that_is_python(clones, capsys):
    main(["fit", "--clones", str(clones), "--samples", "2", "--change", "removed"])
    report, _, printed = capsys.readouterr().out.partition("\n\n")
    (higher,) = re.findall(r"removed: AUC ([\d.]+) on photographs that were not fitted on", report)
    assert float(higher) > 0.5
    assert re.search(r"honest: 2 places, .* at 5 %.* at 50 %", report)
    names = _run(printed)
    assert names["_SURE"].keys() == names["_FAULTS"].keys() == {"removed"}
    (known, *_) = (one.statistics for one in _honest_and_flat(_small("coffee")))
    assert names["_FAULTS"]["removed"]
    for fault in names["_FAULTS"]["removed"]:
        assert fault.statistic in known
        assert fault.side in ("above", "below")
        assert fault.scale >= 0.1
        assert 0.1 <= fault.weight <= 3


@pytest.mark.parametrize("change", _CHANGES)
def test_composites_are_as_asked_and_their_fills_are_not(clones, change):
    photographs = Photographs.of(Clones(clones), "train")
    assert photographs.names == ("chelsea", "coffee")
    composite = compose(photographs, change, np.random.default_rng(3))
    x0, y0, x1, y1 = composite.corners
    height, width = composite.source.shape[:2]
    assert 0 <= x0 < x1 <= width
    assert 0 <= y0 < y1 <= height
    inside = np.zeros((height, width), bool)
    inside[y0:y1, x0:x1] = True
    difference = np.abs(composite.source - composite.clean).max(axis=2)
    assert difference[inside].max() > 24
    assert composite.cover[~inside].max(initial=0) < 0.2
    again = compose(photographs, change, np.random.default_rng(3))
    assert np.array_equal(again.honest, composite.honest)
    made = dict(fills(composite, 4, np.random.default_rng(3)))
    assert made
    for plane in made.values():
        assert plane.shape == composite.source.shape
        assert np.abs(plane - composite.clean)[inside].mean() > 2


def test_a_flat_fill_is_worth_less_than_an_honest_edit():
    """With what `fitted` fits, on photographs of which the honest edit is known."""
    measured = [*_honest_and_flat(_small("coffee")), *_honest_and_flat(_small("chelsea"))]
    fit = fit_faults("removed", measured)
    unseen = _honest_and_flat(_small("astronaut"))
    values = dict(zip([one.kind for one in unseen], fit.values(unseen), strict=True))
    assert values[HONEST] > 0.7
    assert values["flat"] < 0.2
    names = _run(table([fit]))  # the table means in the rating what it meant here
    for one, value in zip(unseen, fit.values(unseen), strict=True):
        amount = sum(fault.amount(one.statistics[fault.statistic]) for fault in names["_FAULTS"]["removed"])
        assert 1 / (1 + np.exp(amount - names["_SURE"]["removed"])) == pytest.approx(value)


def test_what_cannot_be_a_fault_has_no_weight():
    assert may_be_fault("removed", "remains.fine", 1)
    assert not may_be_fault("removed", "remains.fine", -1)
    assert may_be_fault("recoloured", "kept.fine", -1)
    assert not may_be_fault("new", "far.all.50", 1)
    assert not may_be_fault("text", "chroma.50", 1)
    assert not may_be_fault("removed", "interpolated", 1)


def test_a_folder_without_the_clone_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"no clone of BIDS/BSDS500.*fetch --depth 1"):
        main(["fit", "--clones", str(tmp_path)])


def _run(printed):
    """The names of a table in the place of the one in `region_rating.py`."""
    names: dict[str, Any] = {"Mapping": Mapping, "MappingProxyType": MappingProxyType, "_Fault": _Fault}
    names["RegionChange"] = RegionChange
    exec(printed, names)
    return names


def _small(name):
    """150 x 200 x 3 bytes."""
    import skimage.data

    return getattr(skimage.data, name)()[:300, :400][::2, ::2]


def _honest_and_flat(photograph):
    """Places where a bright disc goes from a photograph: the photograph itself with a little noise, and a grey box."""
    clean = photograph.astype(np.float32)
    rng = np.random.default_rng(0)
    found = []
    for centre in (50, 75, 100):
        corners = (centre - 25, centre - 25, centre + 25, centre + 25)
        source, flat = clean.copy(), clean.copy()
        y, x = np.mgrid[: clean.shape[0], : clean.shape[1]]
        source[(x - centre) ** 2 + (y - centre) ** 2 < 22**2] = (250, 240, 30)
        flat[corners[1] : corners[3], corners[0] : corners[2]] = 128
        honest = np.clip(clean + rng.normal(0, 1, clean.shape), 0, 255).astype(np.float32)
        for kind, after in ((HONEST, honest), ("flat", flat)):
            statistics = region_statistics(source, after, corners, as_drawn=True)
            assert statistics is not None
            found.append(Measured(kind, statistics))
    return found
