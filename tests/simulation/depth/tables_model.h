/* Who writes route tables, and the judge of messages that go by them. */
#ifndef ROUTERD_TESTS_SIMULATION_TABLES_MODEL_H
#define ROUTERD_TESTS_SIMULATION_TABLES_MODEL_H

#include "shm/codec/amqp.h"
#include "shm/memory/record.h"
#include "shm/codec/scan.h"
#include "tests/simulation/depth/tables.h"

tables_view tables;

const char *source_text(uint8_t source)
{
    static char text[SOURCES][16];
    snprintf(text[source], sizeof text[source], "host%u:4560", source);
    return text[source];
}

const char *entity_text(uint8_t entity)
{
    static char text[ENTITIES][16];
    snprintf(text[entity], sizeof text[entity], "meid-%u", entity);
    return text[entity];
}

/* ---- versions ---- */

static void shuffled(uint8_t order[ENDPOINTS])
{
    for (uint8_t i = 0; i < ENDPOINTS; i++) {
        const uint32_t at = below(i + 1u);
        order[i] = order[at];
        order[at] = i;
    }
}

static int32_t some_type(void) { return FIRST_TYPE + (int32_t) below(TYPES); }

static table_row some_row(void)
{
    table_row r = { .type = some_type(), .subscription = (int32_t) below(SUBSCRIPTIONS) - 1, .deleted = one_in(12),
                    .senders = one_in(4) ? (uint8_t) below(1u << SOURCES) : 0,
                    .groups = one_in(6) ? 0 : (uint8_t) (1 + below(one_in(2) ? 1 : ROW_GROUPS)) };
    for (uint32_t g = 0; g < r.groups; g++) {
        r.members[g] = (uint8_t) (1 + below(GROUP_MEMBERS));
        for (uint32_t i = 0; i < r.members[g]; i++) r.member[g][i] = (uint8_t) below(ENDPOINTS);
    }
    return r;
}

/* A table that is another one, or a changed one. */
static uint32_t table_written(void)
{
    const uint32_t last = tables.table_count;
    table_version *v = &tables.table[tables.table_count++ + 1];
    *v = last && one_in(2) ? tables.table[last] : (table_version) { .rows = below(TABLE_ROWS + 1) };
    for (uint32_t i = 0; i < v->rows; i++) if (!v->row[i].type || one_in(8)) v->row[i] = some_row();
    shuffled(v->order);
    return tables.table_count;
}

static uint32_t owners_written(void)
{
    owners_version *v = &tables.owners[tables.owners_count++ + 1];
    for (uint32_t i = 0; i < ENTITIES; i++) v->owner[i] = one_in(4) ? NO_OWNER : (uint8_t) below(ENDPOINTS);
    shuffled(v->order);
    return tables.owners_count;
}

static void tables_said(void)
{
    tables.news = true;
    shared.semaphore++;
}

void tables_change(void)
{
    const uint32_t what = below(16);
    if (what < 2 && one_in(4)) tables.configured = !tables.configured;
    else if (what < 3) tables.skips = !tables.skips;
    else if (tables.made_count + 2 < TABLE_VERSIONS)
        tables.made[tables.made_count++] = (table_made) { .table = what < 12 ? table_written() : 0,
                                                         .owners = what >= 10 ? owners_written() : 0 };
    tables_said();
}

void tables_begin(bool on)
{
    static const uint32_t changes[] = { 30, 100, 300, 1000, 3000 };
    memset(&tables, 0, offsetof(tables_view, table));
    tables.table_count = tables.owners_count = tables.made_count = tables.states = 0;
    if (!on) return;
    tables.on = true;
    tables.changes = changes[below(5)];
    tables.configured = !one_in(8);
    tables.skips = one_in(2);
    tables_now(&(table_state) { 0 });
    for (uint32_t i = below(4); i; i--) tables_change();
    tables_said();
}

void tables_now(const table_state *now)
{
    if (tables.states && !memcmp(now, &tables.state[tables.states], sizeof *now)) return;
    HOLDS(tables.states + 1 < TABLE_STATES, "too many states of tables");
    tables.state[++tables.states] = *now;
}

/* ---- messages ---- */

table_way tables_way(bool keyed)
{
    table_way w = { .from = tables.states, .keyed = keyed,
                    .key = { some_type(), (int32_t) below(SUBSCRIPTIONS + 1) - 1, NO_SOURCE, NO_ENTITY } };
    if (one_in(40)) w.key.type = one_in(2) ? NO_TYPE : RESERVED_TYPE;
    if (one_in(3)) w.key.source = (uint8_t) below(SOURCES);
    if (one_in(2)) w.key.entity = (uint8_t) below(ENTITIES);
    return w;
}

void tables_heard(table_way *way) { if (!way->until) way->until = tables.states; }

static uint8_t *put_name(uint8_t *to, const char *name)
{
    return amqp_put_octets(to, AMQP_STRING8, name, (uint32_t) strlen(name));
}

static uint8_t *put_number(uint8_t *to, int32_t number)
{
    *to++ = 0x71;                      /* an int of four octets */
    be32_put(to, (uint32_t) number);
    return to + 4;
}

uint32_t key_put(const table_key *key, uint8_t *to)
{
    uint8_t *head = amqp_put_descriptor(to, SECTION_APPLICATION_PROPERTIES), *items = head + 9, *end = items;
    uint32_t count = 0;
    if (key->source != NO_SOURCE) end = put_name(put_name(end, "rmr.source"), source_text(key->source)), count += 2;
    if (key->type) end = put_number(put_name(end, "rmr.mt"), key->type), count += 2;
    if (key->subscription >= 0) end = put_number(put_name(end, "rmr.sub-id"), key->subscription), count += 2;
    if (key->entity != NO_ENTITY) end = put_name(put_name(end, "rmr.meid"), entity_text(key->entity)), count += 2;
    amqp_put_items_head(head, AMQP_MAP32, (uint32_t) (end - items), count);
    return (uint32_t) (end - to);
}

/* ---- the judge ---- */

static bool for_sender(const table_row *r, uint8_t source)
{
    return !r->senders || (source != NO_SOURCE && r->senders >> source & 1);
}

/* The last row of a key that is for this sender; NULL: there is none, or it deletes the entry. */
static const table_row *row_of(const table_version *v, const table_key *key, int32_t subscription)
{
    for (uint32_t i = v->rows; i--;) {
        const table_row *r = &v->row[i];
        if (r->type != key->type || r->subscription != subscription || !for_sender(r, key->source)) continue;
        return r->deleted ? NULL : r;
    }
    return NULL;
}

typedef struct { const table_state *s; const table_way *way; bool all; uint8_t need[ENDPOINTS]; } judgement;

/* Endpoints whose copies come: none of their receivers has gone since, nor can a router have been chosen. */
static bool sure(const judgement *j, uint32_t e)
{
    const bool far = j->s->reached >> e & 1 && address_treatment(ENDPOINT + e) == BALANCED;
    return j->s->alive >> e & 1 && !far && j->s->left[e] == tables.state[tables.states].left[e];
}

/* Whether the copies that there are can be those that are needed. */
static bool copies_fit(const judgement *j)
{
    for (uint32_t e = 0; e < ENDPOINTS; e++) {
        const uint8_t got = j->way->got[e], need = j->need[e];
        const bool many = address_treatment(ENDPOINT + e) == MULTICAST;
        if (many ? got && !need : got > need) return false;
        if (j->all && sure(j, e) && (many ? need && !got : got < need)) return false;
    }
    return true;
}

static bool groups_fit(judgement *j, const table_row *r, uint32_t group);

static bool member_fits(judgement *j, const table_row *r, uint32_t group, uint32_t e)
{
    j->need[e]++;
    const bool fits = groups_fit(j, r, group + 1);
    j->need[e]--;
    return fits;
}

/* Whether a choice of one member for each group from this one on explains the copies. */
static bool groups_fit(judgement *j, const table_row *r, uint32_t group)
{
    uint8_t left = 0;
    if (group == r->groups) return copies_fit(j);
    for (uint32_t i = 0; i < r->members[group]; i++) left |= (uint8_t) (1u << r->member[group][i]);
    if (j->way->key.source != NO_SOURCE) left &= (uint8_t) ~(1u << j->way->key.source);
    const uint8_t alive = left & j->s->alive, living = alive | (left & j->s->reached), turns = j->s->skips ? living
        : left;
    for (uint32_t e = 0; e < ENDPOINTS; e++)
        if (turns & living & 1u << e && member_fits(j, r, group, e)) return true;
    return (j->s->skips ? !alive : !left || left & ~alive) && groups_fit(j, r, group + 1);
}

static bool owner_fits(judgement *j)
{
    const uint8_t entity = j->way->key.entity;
    const uint8_t owner = j->s->owners && entity != NO_ENTITY ? tables.owners[j->s->owners].owner[entity] : NO_OWNER;
    if (owner != NO_OWNER && (j->s->alive | j->s->reached) >> owner & 1) j->need[owner]++;
    return copies_fit(j);
}

bool tables_left(const table_way *way)
{
    const table_state *from = &tables.state[way->from], *now = &tables.state[tables.states];
    return network.neighbours || memcmp(from->left, now->left, sizeof now->left);
}

/* Whether a message went as one state says; in `told` what its sender heard if it went nowhere. */
static bool state_allows(const table_state *s, const table_way *way, uint32_t told)
{
    judgement j = { .s = s, .way = way, .all = told };
    uint32_t copies = 0;
    for (uint32_t e = 0; e < ENDPOINTS; e++) copies += way->got[e];
    const bool enters = s->there && (s->open || way->keyed) && !way->closed;
    const bool maybe = !enters || (way->keyed && !s->open);
    const bool refused = way->key.type < 100;
    if (!copies && maybe && (!told || told == S_RELEASED)) return true;
    if (!enters) return false;
    if (!copies && told && told != (refused ? S_REJECTED : S_RELEASED) && !(told == S_MODIFIED && tables_left(way)))
        return false;
    if (refused || !s->table) return !copies;
    const table_version *v = &tables.table[s->table];
    const table_row *r = row_of(v, &way->key, way->key.subscription);
    if (!r && way->key.subscription != ANY_SUBSCRIPTION) r = row_of(v, &way->key, ANY_SUBSCRIPTION);
    if (!r) return !copies;
    return r->groups ? groups_fit(&j, r, 0) : owner_fits(&j);
}

bool tables_allow(const table_way *way, uint32_t until, uint32_t told)
{
    for (uint32_t i = way->from; i <= until; i++) if (state_allows(&tables.state[i], way, told)) return true;
    return false;
}

/* ---- turns: members of a group get as many messages, as long as nothing changes ---- */

static struct { uint32_t got[TABLE_ROWS][ENDPOINTS], unknown[TABLE_ROWS]; } turns;

void turn_begins(void) { memset(&turns, 0, sizeof turns); }

/* A message that went by the present state, or may have. */
void turn_taken(const table_way *way)
{
    bool known = false;
    const table_state *s = &tables.state[tables.states];
    const table_version *v = &tables.table[s->table];
    const table_row *r = row_of(v, &way->key, way->key.subscription);
    if (!r && way->key.subscription != ANY_SUBSCRIPTION) r = row_of(v, &way->key, ANY_SUBSCRIPTION);
    if (!r || !s->table || way->closed) return;
    for (uint32_t e = 0; e < ENDPOINTS && way->from == tables.states; e++) {
        turns.got[r - v->row][e] += way->got[e];
        known |= way->got[e] > 0;
    }
    for (uint32_t k = 0; r->groups && k < r->members[0]; k++) known &= r->member[0][k] != way->key.source;
    turns.unknown[r - v->row] += !known;
}

void turns_check(void)
{
    const table_state *s = &tables.state[tables.states];
    const table_version *v = &tables.table[s->table];
    for (uint32_t i = 0; s->table && i < v->rows; i++) {
        const table_row *r = &v->row[i];
        uint8_t members = 0;
        uint32_t least = UINT32_MAX, most = 0;
        for (uint32_t k = 0; k < r->members[0]; k++) {
            const uint32_t e = r->member[0][k];
            if (members >> e & 1 || s->reached >> e & 1 || address_treatment(ENDPOINT + e) == MULTICAST) least = 0;
            members |= (uint8_t) (1u << e);
            if (!(s->alive >> e & 1)) continue;
            if (turns.got[i][e] < least) least = turns.got[i][e];
            if (turns.got[i][e] > most) most = turns.got[i][e];
        }
        /* one that is not known has had a turn, and perhaps come to a member that had none then; and the turns of the
         * former table are added to some that the present one has had already */
        HOLDS(r->groups != 1 || !least || most <= least + 2 + 2 * turns.unknown[i],
              "the members of a group have %u to %u messages, and perhaps %u", least, most, turns.unknown[i]);
    }
}

void tables_way_text(const table_way *w, char *to, size_t room)
{
    int n = snprintf(to, room, "type %d, subscription %d, source %u, entity %u, states %u to %u, keyed %d, copies",
                     w->key.type, w->key.subscription, w->key.source, w->key.entity, w->from, w->until, w->keyed);
    for (uint32_t e = 0; e < ENDPOINTS && n > 0 && (size_t) n < room; e++)
        n += snprintf(to + n, room - (size_t) n, " %u", w->got[e]);
}

/* For who looks for a fault. */
void tables_tell(void)
{
    for (uint32_t i = tables.states > 400 ? tables.states - 400 : 1; i <= tables.states; i++) {
        const table_state *s = &tables.state[i];
        fprintf(stderr, "state %u: table %u, owners %u, alive %#x, reached %#x, there %d, open %d, skips %d\n", i,
                s->table, s->owners, s->alive, s->reached, s->there, s->open, s->skips);
        const table_version *v = &tables.table[s->table];
        for (uint32_t k = 0; s->table && k < v->rows; k++) {
            const table_row *r = &v->row[k];
            fprintf(stderr, "    %d %d senders %#x deleted %d:", r->type, r->subscription, r->senders, r->deleted);
            for (uint32_t g = 0; g < r->groups; g++) {
                for (uint32_t m = 0; m < r->members[g]; m++) fprintf(stderr, " %u", r->member[g][m]);
                fprintf(stderr, ";");
            }
            fprintf(stderr, "\n");
        }
    }
}

#endif
