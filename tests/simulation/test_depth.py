"""A whole router in one process (tests/simulation/depth): its promises hold, and each check of them can fail."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fuzz.catalogue import ROOT
from tests.support.simulation.build import PARTS, compiled, linked

LIVES = 60
SECONDS = 500  # for a program, on a machine that does much else

pytestmark = pytest.mark.timeout(SECONDS + 100)


@dataclass(frozen=True)
class Mutant:
    """A small fault in the router's code, and what the simulation has to say of it."""

    part: str
    file: str
    right: str
    wrong: str
    says: str
    seed: int = 1  # of the first life that is tried


MUTANTS = [
    Mutant(
        "core",
        "core/forwarder/settlement/credit.c",
        "        l->granted++;\n        return 1;",
        "        return 1;",
        "capacity",
    ),
    Mutant(
        "core",
        "core/forwarder/changes/recover.c",
        "core_outcome o = failed ? outcome_plain(S_MODIFIED, D_FAILED)",
        "core_outcome o = failed ? outcome_plain(S_ACCEPTED, 0)",
        "accepted, but nobody",
    ),
    Mutant(
        "core",
        "core/forwarder/settlement/settle.c",
        "        core_release(c, in->arena, in->block, l, credit);\n    } else {",
        "        core_release(c, in->arena, in->length % 211 ? in->block : ROUTERD_NIL, l, credit);\n    } else {",
        "blocks free",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/deliver.c",
        "choose_one(a), priority, state, provenance)) a->deliveries++;",
        "choose_one(a), priority, state, provenance) && ++a->deliveries % 50 == 0)\n"
        "        deliver_here(c, in, a, choose_one(a), priority, state, provenance);",
        "comes 2 times",
        seed=8,
    ),
    Mutant(
        "core",
        "core/forwarder/changes/recover.c",
        "    for (uint32_t i = 0; i < k->link_room; i++)\n        if (k->link[i]) link_remove(c, k->link[i], true);",
        "    for (uint32_t i = 1; i < k->link_room; i++)\n        if (k->link[i]) link_remove(c, k->link[i], true);",
        "is there",
    ),
    Mutant(
        "worker",
        "workers/session/delivery.c",
        "    if (!d->settled) range_say(s, !d->outgoing, true, d->id,",
        "    for (int i = 0; !d->settled && i < 2; i++) range_say(s, !d->outgoing, true, d->id,",
        "settled twice",
    ),
    # a receiver that has said its outcome, and waits for the sender to settle, when the core dies
    Mutant(
        "worker",
        "workers/loop/resync.c",
        "        else if (d && over) delivery_settle(d);\n",
        "        (void) over;\n",
        "somebody waits for ever",
    ),
    # a receiver that drains without a core, takes that back, and drains again with the next one
    Mutant(
        "worker",
        "workers/loop/resync.c",
        "    k->drain_asked = link_get_drain(k);\n    if (!k->drain_asked) drain_forget(p, k);",
        "    if (!link_get_drain(k)) return;\n    k->drain_asked = true;\n    if (!k->drain_asked) drain_forget(p, k);",
        "still drains",
        seed=2908,
    ),
    # a link is sent messages while its deliveries end in portions
    Mutant(
        "core",
        "core/forwarder/changes/recover.c",
        "        link_leaves(c, l);\n        if (l->address)",
        "        l->leaving = true;\n        if (l->address)",
        "outstanding",
        seed=3,
    ),
    # a receiver goes when the last receiver of its address has just got its copy
    Mutant(
        "core",
        "core/forwarder/changes/recover.c",
        "    if (at < a->out_count) {",
        "    if (a) {",
        "comes behind",
        seed=309,
    ),
    # a new core repeats an attach whose far end its predecessor had opened, in a session that all link routes share
    Mutant(
        "worker",
        "workers/session/names.c",
        "!n ? NAME_FREE : n->waiting ? NAME_ENDS : NAME_LIVE",
        "!n || !n->waiting ? NAME_FREE : NAME_ENDS",
        "name already attached",
        seed=39,
    ),
    # a receiver of a link route that takes back its drain when the sender has given credit back
    Mutant(
        "worker",
        "workers/amqp/link_routes.c",
        "if (k->promised > 0 && link_get_drain(k)) return;",
        "if (k->promised > 0) return;",
        "its other end",
        seed=228,
    ),
    # a message of a link route that is aborted while its receiver drains
    Mutant(
        "worker",
        "workers/amqp/link_routes.c",
        "if (routed_grant(p, k) && k->drain_asked) post_link(p, A_DRAIN, k);",
        "routed_grant(p, k);",
        "still drains",
        seed=2415,
    ),
    # a receiver that settles the last message before it has all of it, when its sender has answered the drain
    Mutant(
        "worker",
        "workers/amqp/egress_updates.c",
        "if (k->queue_first || k->drain_ready) work_add(p, k);",
        "if (k->queue_first) work_add(p, k);",
        "still drains",
        seed=6408,
    ),
    # a receiver says its outcome before it has all of a message, and its sender settles: the blocks are others'
    Mutant(
        "worker",
        "workers/amqp/egress_updates.c",
        "    if (outcome && !o->sent) return;\n",
        "",
        "a message ends after",
        seed=29,
    ),
    # the core dies while a message comes whose credit its neighbour has back already
    Mutant(
        "worker",
        "workers/loop/resync.c",
        "intake_discard(p, s, !credit_is_back(s->link));",
        "intake_discard(p, s, true);",
        "a sender has",
        seed=73,
    ),
    # a message with many copies comes in parts; the next one overtakes it on its way to a neighbour
    Mutant(
        "core",
        "core/forwarder/settlement/tell.c",
        "if (in->flags & IN_GROWING && in->flags & IN_COMPLETE) tell_growing(c, in);",
        "if (!in) tell_growing(c, in);",
        "comes behind",
        seed=115,
    ),
    # checks of what goes to routers: where it came in and goes, who has had it, what is outstanding
    Mutant(
        "worker",
        "workers/amqp/annotations_out.c",
        "if (plan->ingress) put_range(w, w->content.ingress, plan->ingress_length);",
        "if (plan->ingress) put_bytes(w, want->self->id, plan->ingress_length);",
        "came in at router",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/transit.c",
        "if (a->treatment == T_FLOOD || transit_valid(n, bit, provenance->origin))",
        "if (bit < 3 && transit_valid(n, bit, provenance->origin))",
        "has come to routers",
        seed=172,
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/transit.c",
        "return mask_without(hops, provenance->trace);",
        "return hops;",
        "comes back to router",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/transit.c",
        "    return origin == 0 || (origin > 0 && mask_has",
        "    return origin <= 0 || (origin > 0 && mask_has",
        "of nobody knows who",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/deliver.c",
        "content->trace_count > c->network.radius + 1)",
        "content->trace_count > c->network.radius + 9)",
        "in circles",
    ),
    Mutant(
        "core",
        "core/forwarder/settlement/settle.c",
        "if (a && a->outstanding && !(out->in->flags & IN_PRESETTLED)) a->outstanding[out->hop]--;",
        "if (a && !out->link->leaving && !(out->in->flags & IN_PRESETTLED)) a->outstanding[out->hop]--;",
        "outstanding over",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/transit.c",
        "    *text = provenance->text ? provenance->text : provenance->overridden",
        "    *text = provenance->text ? provenance->text : true",
        "does not say where it goes",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/fan.c",
        "        if (l && l->kind != LINK_ENDPOINT) credit_due(c, l);\n        in_forwarded(c, in);",
        "        in_forwarded(c, in);",
        "capacity",
    ),
    # a message that says that it is complete before it says how long it is: only a switch between the two shows it
    Mutant(
        "worker",
        "shm/memory/arena.h",
        "    atomic_store_explicit(&c->length, w->written, memory_order_release);\n"
        "    atomic_store_explicit(&c->state, state, memory_order_release);",
        "    atomic_store_explicit(&c->state, state, memory_order_release);\n"
        "    atomic_store_explicit(&c->length, w->written, memory_order_release);",
        "a message ends after",
    ),
]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The simulation's parts, compiled."""
    folder = tmp_path_factory.mktemp("simulation")
    return {part: compiled(part, folder, "-O0") for part in PARTS}


def simulated(program: Path, seed: int, lives: int) -> subprocess.CompletedProcess[str]:
    command = [str(program), str(seed), str(lives)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_promises_hold(parts: dict[str, Path], tmp_path: Path) -> None:
    """Among deaths and in any order nothing accepted is lost, nothing is settled twice, credit and blocks come back."""
    program = linked([*parts.values()], tmp_path / "world")
    done = simulated(program, 1, LIVES)
    assert done.returncode == 0, done.stderr
    again = simulated(program, 1, LIVES)
    assert done.stdout.splitlines()[1:] == again.stdout.splitlines()[1:]  # all but the time it took


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{Path(mutant.file).stem}-{mutant.says.split()[0]}")
def test_a_fault_is_found(parts: dict[str, Path], tmp_path: Path, mutant: Mutant) -> None:
    """Each check fails when the code is wrong in a small way."""
    source = (ROOT / mutant.file).read_text()
    assert source.count(mutant.right) == 1
    changed = tmp_path / "include" / mutant.file
    changed.parent.mkdir(parents=True)
    changed.write_text(source.replace(mutant.right, mutant.wrong))
    wrong = compiled(mutant.part, tmp_path, "-O0", tmp_path / "include")
    program = linked([*(parts | {mutant.part: wrong}).values()], tmp_path / "world")
    done = simulated(program, mutant.seed, 20 * LIVES)
    assert done.returncode == 1, done.stdout
    assert mutant.says in done.stderr, done.stderr
