"""A joint recovery as a folder: one file of arrays and a page of text. Never pickle."""

from __future__ import annotations

from pathlib import Path

from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.bundle import member, read_page, verify, write_bundle
from tacit.files.trees import pack, unpack
from tacit.forward.solution import Certificate, Infeasibility, Mixture, Solution, Status
from tacit.inverse.identification import Identification
from tacit.inverse.linear_questions import DeltaMethod
from tacit.inverse.recovery import History, Recovery, RecoveryCertificate, RecoveryStatus
from tacit.inverse.storage import FORMAT, PAGE, versions
from tacit.inverse.tasks import JointRecovery
from tacit.objective import Objective

ARRAYS = "joint.npz"
KINDS = (
    JointRecovery,
    Recovery,
    RecoveryStatus,
    RecoveryCertificate,
    History,
    Identification,
    DeltaMethod,
    Objective,
    Solution,
    Status,
    Certificate,
    Mixture,
    Infeasibility,
)


def save(joint: JointRecovery, folder: Path) -> None:
    """Writes the folder, all or nothing; an older one in it stays until the new one is whole."""
    arrays = pack(joint)
    page = {
        "format": FORMAT,
        "tasks": len(joint.recoveries),
        "estimator": joint.estimator,
        "status": joint.status.name,
        "sentence": joint.status.value,
        "findings": list(joint.findings),
        "versions": versions(),
    }
    write_bundle(folder, PAGE, page, {ARRAYS: lambda path: write_arrays(path, arrays)})


def load(folder: Path) -> JointRecovery:
    """The joint recovery of a folder; `OSError` if a file is missing, damaged or of another run."""
    page = read_page(folder / PAGE, form=FORMAT)
    if ARRAYS not in page["files"]:
        raise OSError(f"{folder} holds the recovery of one task: load it by tacit.Recovery.load")
    path = member(folder, page, ARRAYS)
    arrays = read_arrays(path)
    verify(path, page, ARRAYS)
    return unpack(arrays, KINDS)
