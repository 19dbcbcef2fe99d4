"""Small faults in the router's code, which the simulation of a whole router has to find."""

from dataclasses import dataclass

PLAIN, TABLES, SOURCED = range(3)  # kinds of lives, as in simulation.h


@dataclass(frozen=True)
class Mutant:
    """A small fault in the router's code, if FAULT is 1, and what the simulation has to say of it."""

    part: str
    file: str
    right: str
    wrong: str
    says: str
    seed: int = 1  # of the first life that is tried
    kind: int = PLAIN


IN_LIVES = [
    Mutant(
        "core",
        "core/forwarder/settlement/credit.c",
        "        l->granted++;\n        return 1;",
        "        if (!FAULT) l->granted++;\n        return 1;",
        "capacity",
    ),
    Mutant(
        "core",
        "core/forwarder/changes/recover.c",
        "core_outcome o = failed ? outcome_plain(S_MODIFIED, D_FAILED)",
        "core_outcome o = FAULT && failed ? outcome_plain(S_ACCEPTED, 0)\n"
        "        : failed ? outcome_plain(S_MODIFIED, D_FAILED)",
        "accepted, but nobody",
    ),
    Mutant(
        "core",
        "core/forwarder/settlement/settle.c",
        "        core_release(c, in->arena, in->block, l, credit);\n    } else {",
        "        core_release(c, in->arena, FAULT && !(in->length % 211) ? ROUTERD_NIL : in->block, l, credit);\n"
        "    } else {",
        "blocks free",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/deliver.c",
        "choose_one(a), priority, state, provenance)) a->deliveries++;",
        "choose_one(a), priority, state, provenance) && ++a->deliveries % 50 == 0 && FAULT)\n"
        "        deliver_here(c, in, a, choose_one(a), priority, state, provenance);",
        "comes 2 times",
        seed=9,
    ),
    Mutant(
        "core",
        "core/forwarder/changes/recover.c",
        "    for (uint32_t i = 0; i < k->link_room; i++)\n        if (k->link[i]) link_remove(c, k->link[i], true);",
        "    for (uint32_t i = FAULT; i < k->link_room; i++)\n"
        "        if (k->link[i]) link_remove(c, k->link[i], true);",
        "is there",
    ),
    Mutant(
        "worker",
        "workers/session/delivery.c",
        "    if (!d->settled) range_say(s, !d->outgoing, true, d->id,",
        "    for (int i = 0; !d->settled && i < 1 + FAULT; i++) range_say(s, !d->outgoing, true, d->id,",
        "settled twice",
    ),
    # a receiver that has said its outcome, and waits for the sender to settle, when the core dies
    Mutant(
        "worker",
        "workers/loop/resync.c",
        "        else if (d && over) delivery_settle(d);\n",
        "        else if (d && over && !FAULT) delivery_settle(d);\n",
        "somebody waits for ever",
    ),
    # a receiver that drains without a core, takes that back, and drains again with the next one
    Mutant(
        "worker",
        "workers/loop/resync.c",
        "    k->drain_asked = link_get_drain(k);\n    if (!k->drain_asked) drain_forget(p, k);",
        "    if (FAULT && !link_get_drain(k)) return;\n"
        "    k->drain_asked = link_get_drain(k);\n    if (!k->drain_asked) drain_forget(p, k);",
        "still drains",
        seed=1204,
    ),
    # a link is sent messages while its deliveries end in portions
    Mutant(
        "core",
        "core/forwarder/changes/recover.c",
        "        link_leaves(c, l);\n        if (l->address)",
        "        if (FAULT) l->leaving = true;\n        else link_leaves(c, l);\n        if (l->address)",
        "outstanding",
        seed=3,
    ),
    # a receiver goes when the last receiver of its address has just got its copy
    Mutant(
        "core",
        "core/forwarder/changes/recover.c",
        "    if (at < a->out_count) {",
        "    if (FAULT || at < a->out_count) {",
        "comes behind",
        seed=2951,
    ),
    # a new core repeats an attach whose far end its predecessor had opened, in a session that all link routes share
    Mutant(
        "worker",
        "workers/session/names.c",
        "!n ? NAME_FREE : n->waiting ? NAME_ENDS : NAME_LIVE",
        "!n || (FAULT && !n->waiting) ? NAME_FREE : n->waiting ? NAME_ENDS : NAME_LIVE",
        "name already attached",
        seed=39,
    ),
    # a receiver of a link route that takes back its drain when the sender has given credit back
    Mutant(
        "worker",
        "workers/amqp/link_routes.c",
        "if (k->promised > 0 && link_get_drain(k)) return;",
        "if (k->promised > 0 && (FAULT || link_get_drain(k))) return;",
        "its other end",
        seed=228,
    ),
    # a message of a link route that is aborted while its receiver drains
    Mutant(
        "worker",
        "workers/amqp/link_routes.c",
        "if (routed_grant(p, k) && k->drain_asked) post_link(p, A_DRAIN, k);",
        "if (routed_grant(p, k) && k->drain_asked && !FAULT) post_link(p, A_DRAIN, k);",
        "still drains",
        seed=20153,
    ),
    # a receiver that settles the last message before it has all of it, when its sender has answered the drain
    Mutant(
        "worker",
        "workers/amqp/egress_updates.c",
        "if (k->queue_first || k->drain_ready) work_add(p, k);",
        "if (k->queue_first || (k->drain_ready && !FAULT)) work_add(p, k);",
        "still drains",
        seed=6408,
    ),
    # a receiver says its outcome before it has all of a message, and its sender settles: the blocks are others'
    Mutant(
        "worker",
        "workers/amqp/egress_updates.c",
        "    if (outcome && !o->sent) return;\n",
        "    if (outcome && !o->sent && !FAULT) return;\n",
        "a message ends after",
        seed=26,
    ),
    # the core dies while a message comes whose credit its neighbour has back already
    Mutant(
        "worker",
        "workers/loop/resync.c",
        "intake_discard(p, s, !credit_is_back(s->link));",
        "intake_discard(p, s, FAULT || !credit_is_back(s->link));",
        "a sender has",
        seed=73,
    ),
    # a message with many copies comes in parts; the next one overtakes it on its way to a neighbour
    Mutant(
        "core",
        "core/forwarder/settlement/tell.c",
        "if (in->flags & IN_GROWING && in->flags & IN_COMPLETE) tell_growing(c, in);",
        "if (in->flags & IN_GROWING && in->flags & IN_COMPLETE && !FAULT) tell_growing(c, in);",
        "comes behind",
        seed=115,
    ),
    # checks of what goes to routers: where it came in and goes, who has had it, what is outstanding
    Mutant(
        "worker",
        "workers/amqp/annotations_out.c",
        "if (plan->ingress) put_range(w, w->content.ingress, plan->ingress_length);",
        "if (plan->ingress && FAULT) put_bytes(w, want->self->id, plan->ingress_length);\n"
        "    else if (plan->ingress) put_range(w, w->content.ingress, plan->ingress_length);",
        "came in at router",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/transit.c",
        "if (a->treatment == T_FLOOD || transit_valid(n, bit, provenance->origin))",
        "if (FAULT ? bit < 3 && transit_valid(n, bit, provenance->origin)\n"
        "            : a->treatment == T_FLOOD || transit_valid(n, bit, provenance->origin))",
        "has come to routers",
        seed=172,
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/transit.c",
        "return mask_without(hops, provenance->trace);",
        "return FAULT ? hops : mask_without(hops, provenance->trace);",
        "comes back to router",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/transit.c",
        "    return origin == 0 || (origin > 0 && mask_has",
        "    return origin == 0 || (FAULT && origin < 0) || (origin > 0 && mask_has",
        "of nobody knows who",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/deliver.c",
        "content->trace_count > c->network.radius + 1)",
        "content->trace_count > c->network.radius + (FAULT ? 9 : 1))",
        "in circles",
    ),
    Mutant(
        "core",
        "core/forwarder/settlement/settle.c",
        "if (a && a->outstanding && !(out->in->flags & IN_PRESETTLED)) a->outstanding[out->hop]--;",
        "if (a && (FAULT ? !out->link->leaving : a->outstanding != NULL) && !(out->in->flags & IN_PRESETTLED))\n"
        "        a->outstanding[out->hop]--;",
        "outstanding over",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/transit.c",
        "    *text = provenance->text ? provenance->text : provenance->overridden",
        "    *text = provenance->text ? provenance->text : FAULT || provenance->overridden",
        "does not say where it goes",
    ),
    Mutant(
        "core",
        "core/forwarder/delivery/fan.c",
        "        if (l && l->kind != LINK_ENDPOINT) credit_due(c, l);\n        in_forwarded(c, in);",
        "        if (l && l->kind != LINK_ENDPOINT && !FAULT) credit_due(c, l);\n        in_forwarded(c, in);",
        "capacity",
    ),
    # a receiver of a link route takes nothing, and others share its session: its link does not end
    Mutant(
        "worker",
        "workers/session/slow.c",
        "    if (!l->relieve_at || p->now_ms < l->relieve_at || l->c->leaving) return;",
        "    if (FAULT || !l->relieve_at || p->now_ms < l->relieve_at || l->c->leaving) return;",
        "takes nothing",
        seed=133,
    ),
    # one who takes one message at a time loses its link for that
    Mutant(
        "worker",
        "workers/session/slow.c",
        "    k->moved = k->share->moved = l->p->now_ms;",
        "    if (!FAULT) k->moved = k->share->moved = l->p->now_ms;",
        "who takes something, loses",
        seed=949,
    ),
    # a message that says that it is complete before it says how long it is: only a switch between the two shows it
    Mutant(
        "worker",
        "shm/memory/arena.h",
        "    atomic_store_explicit(&c->length, w->written, memory_order_release);\n"
        "    atomic_store_explicit(&c->state, state, memory_order_release);",
        "    if (FAULT) atomic_store_explicit(&c->state, state, memory_order_release);\n"
        "    atomic_store_explicit(&c->length, w->written, memory_order_release);\n"
        "    if (!FAULT) atomic_store_explicit(&c->state, state, memory_order_release);",
        "a message ends after",
    ),
]
