"""Packages beside each other that read what a Session is from one folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.emitted import contents
from support.networks import looped

import fairhand
from fairhand.analysis.errors import FairhandError
from fairhand.codegen.compare.status import packages_in
from fairhand.codegen.emit.package_files import read_report

RUN = """
import pickle, sys
sys.path.insert(0, {where!r})
import numpy as np
import one, other
import one.ort_interface
sessions = one.Session(), pickle.loads(pickle.dumps(other.Session()))
feed = {{x.name: np.ones((2, *x.shape[1:]), "f") for x in sessions[0].get_inputs()}}
print([s.run(None, feed)[0].shape for s in sessions])
print(one.Session is other.Session, one.Session.__module__)
print(one.ort_interface.report()["source"]["file"], sessions[0].get_modelmeta().version)
"""


def run(where: Path, code: str = RUN) -> list[str]:
    text = code.format(where=str(where))
    found = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd="/"
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


def compiled(folder: Path, **options: Any) -> fairhand.Package:
    return fairhand.compile(looped(), folder, verify=False, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one", "other"):
        made = compiled(tmp_path / name, shared_runtime=True)
        assert made.report["runtime"]
    return tmp_path


def test_packages_of_one_kind_have_one_runtime(folder: Path) -> None:
    kinds = list((folder / "runtime").iterdir())
    assert [kind.name for kind in kinds] == [read_report(folder / "one")["runtime"]]
    assert {"session.py", "ort_interface.py", "parity.py"} <= {
        path.name for path in kinds[0].iterdir()
    }
    own = {path.name for path in (folder / "one").iterdir()}
    assert own.isdisjoint({"session.py", "ort_interface.py", "engines.py"})
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []
    shapes, same, source = run(folder)
    assert shapes.count("(2,") == 2
    assert same == "False one.session"  # each has modules of its own
    assert source.startswith(read_report(folder / "one")["source"]["file"])


def test_the_emitted_check_runs(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
    test = str(folder / "one" / "test_parity.py")
    found = subprocess.run([*command, test], capture_output=True, text=True, cwd=folder)
    assert found.returncode == 0, found.stdout
    assert "1 passed" in found.stdout  # with the model, parity too
    assert "skipped" in found.stdout


def test_an_edit_of_what_is_shared_is_kept_and_told(folder: Path) -> None:
    kind = read_report(folder / "one")["runtime"]
    session = folder / "runtime" / kind / "session.py"
    session.write_text(session.read_text("utf-8") + "\nMINE = 1\n", "utf-8")
    edited = (f"../runtime/{kind}/session.py",)
    assert [s.edited for s in packages_in(folder)] == [edited, edited]
    again = compiled(folder / "one", shared_runtime=True)
    assert again.edited == edited
    assert "MINE = 1" in session.read_text("utf-8")
    with pytest.raises(FairhandError, match="edited by hand"):
        compiled(folder / "one")  # without what is shared


def test_there_and_back_to_a_package_that_stands_alone(folder: Path) -> None:
    compiled(folder / "one")
    alone = compiled(folder / "alone").path
    assert (folder / "one" / "session.py").is_file()
    for name in ("__init__.py", "session.py", "test_parity.py"):
        assert contents(folder / "one" / name) == contents(alone / name)
    compiled(folder / "one", shared_runtime=True)
    assert not (folder / "one" / "session.py").exists()
    assert [status.missing for status in packages_in(folder)] == [(), (), ()]


def test_what_stands_in_the_way_is_told(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(folder / "runtime")
    missing = {name for s in packages_in(folder) for name in s.missing}
    assert any(name.endswith("session.py") for name in missing)
    (folder / "runtime").write_text("mine", "utf-8")
    with pytest.raises(FairhandError, match="packages share"):
        compiled(folder / "third", shared_runtime=True)
    assert not (folder / "third").exists()
    assert (folder / "runtime").read_text("utf-8") == "mine"
    with pytest.raises(FairhandError, match="packages share"):
        compiled(tmp_path / "a" / "runtime", shared_runtime=True)


def test_a_report_names_no_file_elsewhere(folder: Path) -> None:
    """Whoever wrote the report: nothing outside of the package is read."""
    path = folder / "one" / "report.json"
    text = path.read_text("utf-8")
    kind = read_report(folder / "one")["runtime"]
    path.write_text(text.replace(f'"{kind}"', '"../../etc"'), "utf-8")
    (status,) = packages_in(folder / "one")
    assert all("etc" not in name for name in (*status.edited, *status.missing))
