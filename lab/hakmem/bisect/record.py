"""A bisection in the ledger: every comparison with its blocks, and one record over them all."""

from typing import Any

from hakmem.bisect.course import OTHER, Compared, Course
from hakmem.bisect.posterior import METHOD
from hakmem.bisect.search import Finding
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import ab, protocol, recording
from hakmem.paired.blocks import BASE
from hakmem.process import children
from hakmem.process.argv import split

# A probe's few blocks decide nothing by themselves, so its record is no verdict.
KINDS = {"ends": "verdict", "probe": "probe", "confirmation": "verdict"}


def save(course: Course, finding: Finding) -> Record:
    """Appends the comparisons, then the bisection, which has them as inputs."""
    with children.held_back():
        inputs = [_compared(one).id for one in course.compared]
        return Ledger.default().append("bisect", {**body(course, finding), "inputs": inputs})


def _compared(one: Compared) -> Record:
    assert one.facts is not None
    plan = one.done.plan
    asked = ab.question(plan, OTHER)
    verdict = recording.verdict_body(plan, (BASE, OTHER), one.decision, asked, one.facts)
    records = recording.save(one.done, one.facts, {OTHER: verdict}, KINDS[one.role])
    return records[OTHER]


def body(course: Course, finding: Finding) -> dict[str, Any]:
    """The record: what was asked, the probability of each commit, and the answer."""
    request, commits, ends = course.request, course.commits, course.compared[0]
    assert ends.facts is not None
    what = f"{ends.target.reading.words} on {ends.target.name}"
    suspect = finding.suspect
    return {
        "question": f"which commit first changed {what}?",
        "aim": request.aim,
        "answer": finding.answer,
        "verdict": finding.verdict,
        "finding": finding.sentence,
        "good": commits[0].hash,
        "bad": commits[-1].hash,
        "suspects": [commits[at].hash for at in suspect.commits] if suspect else [],
        "before": commits[suspect.before].hash if suspect else None,
        "repository": request.repository.absolute().name if request.repository else None,
        "build": request.build,
        "skipped": {commits[at].hash: why for at, why in sorted(course.search.skipped.items())},
        "posterior": posterior(course),
        "metrics": metrics(course, finding),
        "comparisons": [
            {"role": one.role, "base": commits[one.base].hash, "commit": commits[one.commit].hash}
            for one in course.compared
        ],
        "seed": request.seed,
        "probe_blocks": request.blocks,
        "most_blocks": request.most,
        "most_probes": request.probes,
        "method": METHOD,
        "protocol": protocol.METHOD,
        "benchmarks": [recording.track_entry(ends.target)],
        **ends.facts.entry((BASE, OTHER)),
        "argv": argv(course),
    }


def argv(course: Course) -> list[str]:
    """The command line with the ends by their hashes: later HEAD names another commit."""
    request, commits = course.request, course.commits
    ends = {request.good: commits[0].hash, request.bad: commits[-1].hash}
    own, rest = split(request.argv)
    return [*(ends.get(word, word) for word in own), *rest]


def posterior(course: Course) -> list[dict[str, Any]]:
    """The probability of each commit in order; the first entry is that none changed it."""
    now, measured = course.search.posterior(), course.search.measured()
    entries: list[dict[str, Any]] = [{"commit": None, "probability": now.chances[0]}]
    for at, commit in enumerate(course.commits[1:], start=1):
        found = measured.get(at)
        seen = {"gain": found.gain, "width": found.width} if found else {}
        entry = {"commit": commit.hash, "subject": commit.subject, "probability": now.chances[at]}
        entries.append({**entry, **seen, "blocks": len(course.search.gains.get(at, ()))})
    return entries


def metrics(course: Course, finding: Finding) -> dict[str, dict[str, object]]:
    """The ratios of the ends and of the suspect to what was before, and its probability."""
    entries = {
        {"ends": "bad end", "confirmation": "suspect"}[one.role]: recording.ratio_entry(
            one.target, one.decision.target
        )
        for one in course.compared
        if one.role != "probe"
    }
    chance = finding.suspect.chance if finding.suspect else course.search.posterior().chances[0]
    name = "probability of the suspect" if finding.suspect else "probability of none"
    return {**entries, name: {"value": chance, "unit": "probability", "kind": "posterior"}}
