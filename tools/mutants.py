"""Whether the tests notice when the code is broken on purpose: by hand, not part of the suite.

    python tools/mutants.py                     # all of them: half an hour on two cores
    python tools/mutants.py --only gauge tally  # those with one of these words in their names
    python tools/mutants.py --root FOLDER       # another checkout, such as an older one
    python tools/mutants.py --list              # where each would be made, and nothing else

Each mutant is one small change of behaviour and the tests that should fail. The text to change is
looked for in the whole package and must stand there exactly once, so a mutant survives a move of
its code; where code was rewritten it has an alternative. Everything happens in a copy.
A test that kills must pass on the code as it is: those that did are run once more at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# A mutant may make a search endless.
LONGEST = 600


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        name: room and behaviour.
        tests: names of the files of tests that should notice, without `test_` and `.py`, and
            after a colon what pytest's `-k` picks of them.
        changes: (text, other text), the first that is found.
    """

    name: str
    tests: str
    changes: tuple[tuple[str, str], ...]


def mutant(name: str, tests: str, *changes: tuple[str, str]) -> Mutant:
    return Mutant(name, tests, changes)


MUTANTS = (
    # Certificates and statuses
    mutant(
        "certificate: values that are not feasible",
        "certificate",
        (
            "dual = float(mdp.initial @ values) + residual / (1.0 - mdp.discount)",
            "dual = float(mdp.initial @ values)",
        ),
    ),
    mutant(
        "certificate: gap taken for 0",
        "certificate",
        ("duality_gap=float((dual - primal) / scale)", "duality_gap=0.0"),
    ),
    mutant(
        "certificate: flow residual forgets negative visits",
        "certificate",
        (
            "np.abs(flow).sum() - np.minimum(visitation, 0.0).sum()",
            "np.abs(flow).sum()",
        ),
    ),
    mutant(
        "certificate: negative prices bound nothing",
        "certificate",
        (
            "if price < 0 or (price > 0 and budget == np.inf):",
            "if price > 0 and budget == np.inf:",
        ),
    ),
    mutant(
        "certificate: entropy of the wrong sign",
        "certificate soft_dual",
        ("-policy * np.log(np.where", "policy * np.log(np.where"),
    ),
    mutant(
        "certificate: a gap below zero counts as none",
        "certificate",
        ("abs(self.duality_gap), self.slackness)", "self.duality_gap, self.slackness)"),
    ),
    mutant(
        "certificate: violation on a scale of ten",
        "certificate",
        ("(cost - budget) / unit", "(cost - budget) / (10.0 * unit)"),
    ),
    mutant(
        "status: a proof of infeasibility is not believed",
        "column_generation solvers",
        ("infeasibility.least > infeasibility.allowed", "infeasibility.least > np.inf"),
        (
            "proof is not None and proof.least > proof.allowed",
            "proof is not None and proof.least > np.inf",
        ),
    ),
    # Hard solvers
    mutant(
        "solver: shares of the mixture swapped",
        "column_generation",
        ("np.array([share, 1.0 - share])", "np.array([1.0 - share, share])"),
    ),
    mutant(
        "solver: least violation in raw units",
        "column_generation",
        (
            "pressure = np.maximum(duals[:count], 0.0) / scale",
            "pressure = np.maximum(duals[:count], 0.0)",
        ),
    ),
    mutant(
        "solver: slack within a thousandth",
        "column_generation solvers",
        ("FEASIBILITY = 1e-12", "FEASIBILITY = 1e-3"),
    ),
    mutant(
        "solver: states never visited have no policy",
        "solvers certificate visitation",
        ("np.eye(actions)[fallback(lost)]", "0.0"),
    ),
    # The smooth dual
    mutant(
        "search: every step is taken",
        "search smooth_dual soft_dual",
        (
            "accepted = fresh.loss <= point.loss[rows] + ARMIJO * slope + error",
            "accepted = fresh.loss < np.inf",
        ),
    ),
    mutant(
        "search: a leg goes beyond a bound",
        "search smooth_dual",
        (
            "length = np.minimum(1.0, share_of.min(axis=1, initial=np.inf))[:, None]",
            "length = np.ones((len(rows), 1))",
        ),
    ),
    mutant(
        "search: gradient at the upper bound",
        "search smooth_dual convex",
        ("((here >= upper) & (gradient <= 0))", "((here >= upper) & (gradient >= 0))"),
    ),
    mutant(
        "search: equalities pull at nothing",
        "search temperature",
        ("return gradient + np.stack(prices) @ problem.ties", "return gradient"),
    ),
    mutant(
        "search: curvatures that bend down are followed",
        "search tasks",
        ("found[n] = self.convex[n]", "pass"),
    ),
    mutant(
        "smooth dual: ridge left out of the gradient",
        "smooth_dual convex",
        ("gradient + problem.ridge * x,", "gradient,"),
        ("gradient + dual.ridge * x,", "gradient,"),
    ),
    mutant(
        "smooth dual: soft values without temperature",
        "certificate soft_dual",
        ("return best + temperature * np.log(", "return best + np.log("),
    ),
    mutant(
        "search: ends at ten thousand times the tolerance",
        "search smooth_dual soft_dual",
        (
            "missing = (at.missed > STOP_SHARE * tolerance)",
            "missing = (at.missed > 1e4 * tolerance)",
        ),
    ),
    # Simulation
    mutant(
        "simulation: every episode the same stream",
        "simulation",
        ("counters[:, 2] = np.arange(count)", "counters[:, 2] = 0"),
    ),
    mutant(
        "simulation: an ended episode is a step short",
        "simulation",
        (
            "lengths[over], final[over], ended[over] = first + t + 1,",
            "lengths[over], final[over], ended[over] = first + t,",
        ),
    ),
    mutant(
        "simulation: rounding may fall off a row",
        "simulation",
        (
            "return np.where(later, np.cumsum(probabilities, axis=-1), np.inf)",
            "return np.cumsum(probabilities, axis=-1)",
        ),
    ),
    # Counts
    mutant(
        "counts: partial episodes begin at the start",
        "counting",
        ("rows = demonstrations.offsets[:-1][whole]", "rows = demonstrations.offsets[:-1]"),
    ),
    mutant(
        "counts: last steps lose their outcome",
        "counting",
        ("following[self.offsets[1:] - 1] = self.final_states", "pass"),
    ),
    mutant(
        "counts: merged counts are counted once",
        "counting",
        ("total = total + csr_array(", "total = csr_array("),
    ),
    # Gauge
    mutant(
        "gauge: free signs are not signs",
        "gauge likelihood convex",
        (
            "norm[reward] = np.where(self.x[reward] < 0, -1.0, 1.0) * inverse[reward]",
            "norm[reward] = inverse[reward]",
        ),
    ),
    mutant(
        "gauge: budgets in scaled units",
        "gauge likelihood convex",
        (
            "undo both.\n        expectations = -self.spent * self.scales",
            "undo both.\n        expectations = -self.spent",
        ),
    ),
    mutant(
        "gauge: the noise is its inverse",
        "gauge convex likelihood",
        ("1.0 / np.where(self._norm > 0,", "np.where(self._norm > 0,"),
    ),
    mutant(
        "gauge: constant features move something",
        "gauge likelihood convex",
        (
            "factors, middle = np.where(varies, sign / scale, 0.0), middles",
            "factors, middle = sign / scale, middles",
        ),
        ("factors = np.where(varies, sign / scale, 0.0)", "factors = sign / scale"),
    ),
    # Intervals and tests
    mutant(
        "intervals: 87 % instead of 95 %",
        "inference likelihood",
        ("TWO_SIDED = 1.959963984540054", "TWO_SIDED = 1.5"),
    ),
    mutant(
        "intervals: every cut is that of a chi-square number",
        "zeros:cuts",
        ("return CUT if law is None else max(law.cut(row, side, WITHIN), CUT)", "return CUT"),
    ),
    mutant(
        "intervals: both ends have the cut of one side",
        "boundary",
        ("np.where(side * drawn[1] > 0, drawn[0], 0.0)", "np.where(drawn[1] > 0, drawn[0], 0.0)"),
    ),
    mutant(
        "intervals: what does not fit is not scaled",
        "profiles:unequal",
        ("rise if self.excess is None else rise / self.excess(form)", "rise"),
    ),
    mutant(
        "intervals: nothing scatters where nothing was seen",
        "profiles:cliff",
        ("scatter = at_least(floor, scatter)  # where", "scatter = scatter + 0.0  # where"),
    ),
    mutant(
        "intervals: no sandwich",
        "inference likelihood",
        ("law = inverse if scatter is None else inverse @ scatter @ inverse", "law = inverse"),
    ),
    mutant(
        "intervals: blind directions have no width",
        "inference likelihood",
        ("np.where(is_blind, np.inf, np.sqrt(", "np.where(is_blind, 0.0, np.sqrt("),
    ),
    mutant(
        "intervals: forbidden costs are priced",
        "inference likelihood",
        (
            "if loss(moved(largest)) - best <= FLAT:",
            "if loss(moved(largest)) - best <= -1.0:",
        ),
    ),
    mutant(
        "activity: chi-square instead of the cone",
        "activity",
        (
            "visible = np.diagonal(left) > BLIND",
            "return float(chi2.sf(ratio, len(cone)))\n    visible = np.diagonal(left) > BLIND",
        ),
    ),
    mutant(
        "activity: bounds of nuisance parameters forgotten",
        "activity",
        (
            "cone = np.flatnonzero(tested | held)\n    left = fisher - fisher",
            "cone = np.flatnonzero(tested)\n    left = fisher - fisher",
        ),
    ),
    mutant(
        "noise: a deterministic expert is not seen",
        "likelihood convex",
        ("if not np.abs(step).max(initial=0.0) > 1.0:  # its bounds keep it here", "if True:"),
    ),
    mutant(
        "choice: noisy experts are explained",
        "recovery journey",
        ("if share > DETERMINISTIC:", "if share >= 0.0:"),
    ),
    # Explanations
    mutant(
        "explanation: ceilings of the frontier upside down",
        "explanation",
        ("forms[frontier[bounded]], -most[bounded])", "forms[frontier[bounded]], most[bounded])"),
    ),
    mutant(
        "explanation: second actions need not be optimal",
        "explanation",
        ("second[np.arange(mdp.states), chosen] = False", "second[:] = False"),
    ),
    mutant(
        "explanation: values of the rest paid at every step",
        "explanation",
        (
            "share = 1.0 if cone.stopped.restricted else 1.0 - cone.mdp.discount",
            "share = 1.0",
        ),
    ),
    mutant(
        "explanation: slack without the future",
        "explanation",
        (
            "short = values[:, None] - table - mdp.discount * mdp.expected_next(values)",
            "short = values[:, None] - table",
        ),
    ),
    # The paper's algorithm
    mutant(
        "projection: the face of least cost has a price",
        "projections",
        (
            "logs, -np.inf))\n    if least >= 0.0:\n        return Projection(face, np.inf, least",
            "logs, -np.inf))\n    if least >= 0.0:\n        return Projection(face, np.inf, 0.0",
        ),
    ),
    mutant(
        "projection: Newton away from the root",
        "projections",
        ("low, high = (trial, high) if mean > 0.0 else (low, trial)", "low, high = trial, high"),
    ),
    mutant(
        "algorithm: costs are pushed the other way",
        "alternating",
        ("price * (mean - part)", "price * (part - mean)"),
    ),
    mutant(
        "algorithm: budgets forget what comes after the horizon",
        "alternating",
        ("np.array([w @ (mean + after) for", "np.array([w @ mean for"),
    ),
    # What was seen
    mutant(
        "tally: longest of two is their sum",
        "tallies",
        ("np.maximum(self.longest, other.longest)", "self.longest + other.longest"),
    ),
    mutant(
        "tally: spread of merged parts",
        "tallies",
        (
            "self.squares + other.squares + self.number * share * apart**2",
            "self.squares + other.squares",
        ),
    ),
    mutant(
        "tally: episodes are not numbered on",
        "tallies cluster",
        ("other.move and (other.move[0] + self.episodes, *other.move[1:])", "other.move"),
    ),
    mutant(
        "tally: the rest of a trajectory is lost",
        "tallies expectations",
        (
            "rest = np.where(known, self.cut, 0.0)[:, None]",
            "rest = np.where(known, 0.0, 0.0)[:, None]",
        ),
    ),
    mutant(
        "partitions: an episode in two files",
        "tallies cluster",
        ("twice = np.flatnonzero(every[order[1:]] == every[order[:-1]])", "twice = order[:0]"),
    ),
    mutant(
        "expectations: errors of one trajectory",
        "expectations",
        ("part / np.sqrt(self.trajectories) for part", "part for part"),
    ),
    mutant(
        "expectations: Hoeffding without both sides",
        "expectations guarantees",
        ("np.log(2 * _count(self.means) / _risk(confidence))", "np.log(_count(self.means) / 1.0)"),
    ),
    # Files and folders
    mutant(
        "files: a page that was changed is read",
        "files runs faults",
        ("if hashlib.sha256(blank).hexdigest() != total:", "if total == 0:"),
    ),
    mutant(
        "files: half a file under its name",
        "files",
        ("temporary, ours = beside_for_now(path), False", "temporary, ours = path, False"),
    ),
    mutant(
        "files: what a failed write leaves",
        "files faults",
        ("if ours:\n            _remove(temporary)", "if ours:\n            pass"),
    ),
    mutant(
        "tables: line numbers within a block",
        "readers",
        ('line += content.count(b"\\n", 0, end)', "line += 0"),
    ),
    mutant(
        "tables: the header is no line",
        "readers problems",
        ("self.line = self.header + 1", "self.line = self.header"),
    ),
    mutant(
        "lock: two writers",
        "runs faults",
        (
            "if system is False or (holder and _lives(holder, locks_work=system is True)):",
            "if False:",
        ),
        ("        raise _taken(path, *_holder(path)) from None", "        pass"),
    ),
    mutant(
        "checkpoint: other data are gone on with",
        "resume",
        ('if found["problem"] not in ("", self._problem):', "if False:"),
    ),
    mutant(
        "checkpoint: nothing is taken from it",
        "resume",
        ("state = restore(place)", "pass"),
    ),
    # Commands, pages, exports
    mutant(
        "command: infeasible is bad input",
        "cli commands",
        ("return NOT_SOLVED, said", "return BAD_INPUT, said"),
    ),
    mutant(
        "command: no file is our bug",
        "cli",
        ('return NO_FILE, f"{error.strerror', 'return OUR_BUG, f"{error.strerror'),
    ),
    mutant(
        "page: text is not escaped",
        "show report recovery_page",
        ('return "".join(parts) + escape(text[end:])', 'return "".join(parts) + text[end:]'),
        (
            'return Markup("").join([*parts, escape(text[end:])])',
            'return Markup("").join([*parts, Markup(text[end:])])',
        ),
    ),
    mutant(
        "page: titles are not escaped",
        "show report",
        ("<title>{escape(document.title)}</title>", "<title>{document.title}</title>"),
        ("autoescape=True", "autoescape=False"),
    ),
    mutant(
        "export: an episode ends where it is still paid",
        "export",
        ("mdp.ends | (mdp.absorbing & quiet)", "mdp.ends | mdp.absorbing"),
    ),
    mutant(
        "export: the policy is the visitation",
        "export",
        ('found = {"policy": solution.policy, ', 'found = {"policy": solution.visitation, '),
    ),
    mutant(
        "export: costs of the state arrived in",
        "export",
        ("self.costs[:, state, action]", "self.costs[:, self._state, action]"),
    ),
    mutant(
        "export: an end is never paid",
        "export",
        ("weight = self.discount if taken else 1.0", "weight = 0.0"),
        ("paid = paid + self._discount * rows[0, 0]", "paid = paid + 0.0"),
    ),
    # Judges
    mutant(
        "metric: total variation doubled",
        "judge/behaviour",
        (
            "0.5 * (1.0 - mdp.discount) * np.abs(np.asarray(first)",
            "(1.0 - mdp.discount) * np.abs(np.asarray(first)",
        ),
    ),
    mutant(
        "metric: f1 halved",
        "judge/feasible",
        ("f1=2 * both / (true + found)", "f1=both / (true + found)"),
    ),
    mutant(
        "metric: refusals are not asked for",
        "judge/feasible",
        ("(found[true], ~found[~true])", "(found[true], found[~true])"),
    ),
    mutant(
        "metric: ties are wrong",
        "judge/behaviour",
        ("np.where(gaps > tolerance * gaps.max() + rounding", "np.where(gaps > -1.0"),
    ),
    mutant(
        "metric: likelihood of all steps",
        "judge/behaviour judge/compare",
        (
            "np.log(np.minimum(policy[seen], 1.0)) / counts.sum())",
            "np.log(np.minimum(policy[seen], 1.0)))",
        ),
    ),
    # Questions after a fit
    mutant(
        "bootstrap: half of the level",
        "batches",
        (
            "50.0 * (1.0 - CONFIDENCE), 50.0 * (1.0 + CONFIDENCE)",
            "50.0 - 25.0 * CONFIDENCE, 50.0 + 25.0 * CONFIDENCE",
        ),
    ),
    mutant(
        "joint: degrees of freedom of the wider model",
        "tasks",
        ("degrees = ranks[0] - ranks[1]", "degrees = ranks[0]"),
    ),
    mutant(
        "individuals: their episodes are drawn apart",
        "individuals",
        ("yield units.drawn(random)", "yield random.integers(len(units), size=len(units))"),
    ),
    mutant(
        "individuals: their episodes are dealt apart",
        "individuals",
        ("self.units.dealt(self.member, random)", "random.permutation(self.member)"),
    ),
    mutant(
        "individuals: episodes are held out apart",
        "individuals",
        (
            "held = np.isin(units.number, chosen)",
            "held = np.isin(np.arange(units.number.size), chosen)",
        ),
    ),
    mutant(
        "groups: chi-square of twice the ratio",
        "groups",
        (
            "p_value = chi_square_tail(found.degrees, found.ratio)",
            "p_value = chi_square_tail(found.degrees, 2 * found.ratio)",
        ),
    ),
    # Fit, types, ends, caution, priors, logs
    mutant(
        "goodness: nothing speaks against a model",
        "goodness:misfit or said or strict",
        ("if part.adjusted <= self.level]", "if part.adjusted <= 0.0]"),
        ("if part.adjusted <= self.level", "if part.adjusted <= 0.0"),
    ),
    mutant(
        "goodness: the lower tail of the law",
        "goodness",
        ("(law >= statistic * (1.0 - 1e-12))", "(law <= statistic * (1.0 - 1e-12))"),
    ),
    mutant(
        "goodness: the worst state is the least visited",
        "goodness",
        ("first_largest(lost.sum(axis=1))", "first_largest(-lost.sum(axis=1))"),
    ),
    mutant(
        "sandwich: units scatter less than their steps",
        "inference",
        ("np.sqrt(np.maximum(values, 1.0))", "np.sqrt(np.maximum(values, 0.0))"),
    ),
    mutant(
        "mixture: shares of the types stay as they began",
        "mixture",
        ("gradient[tail] = -ratios @ repeats", "gradient[tail] = 0.0"),
    ),
    mutant(
        "mixture: all types are as frequent",
        "mixture",
        ("membership = shares[:, None] * ratios", "membership = ratios / len(ratios)"),
    ),
    mutant(
        "ends: something is done there",
        "ends",
        ("np.where(mdp.ends[:, None], 0.0, policy) if mdp.restricted", "policy if mdp.restricted"),
    ),
    mutant(
        "ends: visits are counted once for every action",
        "ends",
        (
            ".sum(axis=1, keepdims=True) / mdp.actions\n    return spread",
            ".sum(axis=1, keepdims=True)\n    return spread",
        ),
    ),
    mutant(
        "discount 1: who goes round for ever is let go",
        "ends goals trips",
        ("led[lost, mdp.walk[0][lost]] += 1.0", "led[lost, mdp.walk[0][lost]] += 0.0"),
    ),
    mutant(
        "trips: ways that may miss the goal stay",
        "trips goals",
        (
            "kept = there & (sure[moves] | ~positive).all(axis=2) & sure[:, None]",
            "kept = there & sure[:, None]",
        ),
    ),
    mutant(
        "caution: budgets in other units than weights",
        "caution",
        ("budgets.append(float(row[-1]) / size)", "budgets.append(float(row[-1]))"),
    ),
    mutant(
        "caution: the least share instead of the most",
        "caution",
        ("share, best = middle, cut", "share, best = share, best"),
    ),
    mutant(
        "prior: the strength that predicts worst",
        "many_features",
        (
            "strength=float(STRENGTHS[int(np.argmax(found))])",
            "strength=float(STRENGTHS[int(np.argmin(found))])",
        ),
    ),
    mutant(
        "forbidden: every candidate at the level of one",
        "forbidden",
        ("np.cumsum(np.exp(self.logs[order])) <= level", "np.exp(self.logs[order]) <= level"),
    ),
    mutant(
        "forbidden: every name at the level of one",
        "forbidden",
        ("np.cumsum(chances[order]) <= level", "chances[order] <= level"),
    ),
    mutant(
        "forbidden: an update of the inverse with the wrong sign",
        "forbidden",
        ("np.outer(factor * begun, ended)", "np.outer(-factor * begun, ended)"),
    ),
    mutant(
        "forbidden: what is held by another is no question",
        "forbidden",
        ("np.where(idle[~wide], 0.0, out)", "out"),
    ),
    mutant(
        "ingest: gaps in time are no gaps",
        "ingest sources",
        ("(owner[1:] != owner[:-1]) | (tick[1:] != tick[:-1] + 1)", "owner[1:] != owner[:-1]"),
    ),
    mutant(
        "bootstrap: a sentence without a kind",
        "batches:resampling",
        (
            "with_findings([Finding(said, Kind.ERRORS, number=float(many))])",
            "with_findings([said])",
        ),
    ),
)


def place(package: Path, one: Mutant) -> tuple[Path, str, str] | None:
    """(file, text, other text) of the first change whose text stands exactly once."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    for old, new in one.changes:
        found = [path for path, text in files.items() if old in text]
        if len(found) == 1 and files[found[0]].count(old) == 1:
            return found[0], old, new
    return None


def files_of(tests: Path, name: str) -> list[str]:
    """The files of tests of this name, or of this room and name."""
    room, _, stem = name.rpartition("/")
    return [str(path) for path in tests.rglob(f"test_{stem}.py") if room in ("", path.parent.name)]


def run(copy: Path, files: list[str]) -> tuple[bool, str]:
    """Whether one of the tests fails, and the first that does."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    try:
        done = subprocess.run(
            words, cwd=copy, env=environment, capture_output=True, text=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return True, ""  # it never ends
    first = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    by = first[0].partition(" - ")[0].partition(" ")[2] if first else ""
    return done.returncode in (1, 2), by


def main() -> None:
    """Makes and tries the mutants."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    chosen = [one for one in MUTANTS if any(word in one.name for word in asked.only)]
    results: dict[str, str] = {}
    killers: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tacit"
        if not asked.list:
            kept = shutil.ignore_patterns(".git", ".venv", "site", "demo", "__pycache__")
            shutil.copytree(asked.root, copy, ignore=kept)
        package = (asked.root if asked.list else copy) / "src" / "tacit"
        for one in chosen:
            found = place(package, one)
            if found is None or asked.list:
                where = "NOT FOUND" if found is None else found[0].relative_to(package).as_posix()
                print(f"{where:40} {one.name}", flush=True)
                results[one.name] = "not found"
                continue
            path, old, new = found
            text, began = path.read_text(encoding="utf-8"), time.monotonic()
            path.write_text(text.replace(old, new), encoding="utf-8")
            names, _, pick = one.tests.partition(":")
            chosen_tests = [
                file for name in names.split() for file in files_of(copy / "tests", name)
            ]
            killed, by = run(copy, [*chosen_tests, *(["-k", pick] if pick else [])])
            path.write_text(text, encoding="utf-8")
            results[one.name] = "killed" if killed else "survived"
            killers |= {by} - {""} if killed else set()
            seconds = time.monotonic() - began
            print(f"{results[one.name]:9} {seconds:5.0f} s  {one.name}  {by}", flush=True)
            if asked.json:
                asked.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
        failing, by = run(copy, sorted(killers)) if killers else (False, "")
        if failing:
            print(f"{by} fails on the code as it is: what it killed is not known to be killed")
    counts = {word: list(results.values()).count(word) for word in ("killed", "survived")}
    print(f"{counts['killed']} killed, {counts['survived']} survived, of {len(chosen)}")


if __name__ == "__main__":
    main()
