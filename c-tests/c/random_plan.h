/* The plan of one act of random.c: messages, and when each side begins and ends them. All ranks draw the same plan.
 *
 * Times are places in one order of all events of all ranks. Each rank runs through its own in that order. What begins
 * does not wait; what ends stands behind the begin on the other side, or both do all at one place. So there is always an
 * event that can go on: no deadlock, whatever the timing.
 *
 * Receives are matched by time as planned because `is_determinate` says so: between one sender and one receiver it does
 * not depend on timing which message goes to which receive, only on the order on either side. */
#ifndef RANDOM_PLAN_H
#define RANDOM_PLAN_H

enum { MOST = 48, STEP = 20, NEVER_TAG = 9999, FLOOD_TAG = 9000 };

enum kind { PLAIN, TOKEN, READY, EXCHANGE, CHAIN };

struct message {
    enum kind kind;
    int side, source, dest;      /* the sender's side, and ranks */
    int tag, any_tag, any_source; /* as sent, and as asked for */
    int signature, units;        /* sent */
    int room;                    /* units that the receiver has place for: fewer truncate */
    int truncated;               /* also where the room was made larger */
    int sent, taken;             /* when it begins */
    int sent_end, taken_end;     /* when it ends: at the same time, if the call blocks */
    int first;                   /* the first of its chain, or the other half of the exchange */
    uint64_t seed;
};

struct plan {
    int n, sizes[2]; /* messages, ranks a side */
    int signatures;  /* how many kinds of them there are */
    struct message of[MOST];
};

static int draw_units(int signature)
{
    int bytes = signatures[signature].bytes, limit = 16384 / bytes;
    switch (draw(16)) {
    case 0:
    case 1: return 0;
    case 2: return 1;
    case 3:
    case 4: return limit - 4 + (int)draw(9); /* about the eager limit */
    case 5:
    case 6: return (int)draw(300000) / bytes;
    case 7: return draw(4) ? (int)draw(70000) / bytes : (int)draw(3000000) / bytes;
    default: return (int)draw(600);
    }
}

/* When the two ends of a message happen, around `at` and no farther from it than `reach`. */
static void draw_times(struct message *m, int at, int reach)
{
    unsigned split = draw(4);
    m->sent = m->sent_end = m->taken = m->taken_end = at;
    int before = (int)draw((unsigned)reach) + 1, after = (int)draw((unsigned)reach) + 1;
    if (split == 1) m->sent -= before, m->sent_end += after;
    if (split == 2) m->taken -= before, m->taken_end += after;
    if (split == 3) {
        m->sent -= before, m->taken -= (int)draw((unsigned)reach) + 1;
        m->sent_end += after, m->taken_end += (int)draw((unsigned)reach) + 1;
    }
}

static struct message *new_message(struct plan *p, enum kind kind, int side)
{
    struct message *m = &p->of[p->n];
    memset(m, 0, sizeof *m);
    m->kind = kind, m->side = side, m->first = p->n;
    m->source = (int)draw((unsigned)p->sizes[side]), m->dest = (int)draw((unsigned)p->sizes[!side]);
    m->signature = (int)draw((unsigned)p->signatures);
    m->units = m->room = draw_units(m->signature);
    m->tag = 100 + p->n;
    m->seed = (uint64_t)draw(1u << 30) << 8 | (uint64_t)p->n;
    ++p->n;
    return m;
}

/* Whether a receive that was begun for message `r` would take message `m`. */
static int matches(const struct message *r, const struct message *m)
{
    return r->side == m->side && r->dest == m->dest && (r->any_source || r->source == m->source) &&
           (r->any_tag || r->tag == m->tag);
}

static int is_determinate(const struct plan *p)
{
    int sends[MOST], matched[MOST] = {0};
    for (int i = 0; i < p->n; ++i) {
        const struct message *r = &p->of[i];
        /* From any source: nobody else's message may fit. */
        for (int k = 0; k < p->n; ++k)
            if (p->of[k].source != r->source && matches(r, &p->of[k])) return 0;
        int at = i;
        for (; at > 0 && p->of[sends[at - 1]].sent > r->sent; --at) sends[at] = sends[at - 1];
        sends[at] = i;
    }
    /* In the order of sending, each takes the first receive that fits and is free. */
    for (int s = 0; s < p->n; ++s) {
        int best = -1;
        for (int k = 0; k < p->n; ++k)
            if (!matched[k] && matches(&p->of[k], &p->of[sends[s]]) && (best < 0 || p->of[k].taken < p->of[best].taken))
                best = k;
        if (best != sends[s]) return 0;
        matched[best] = 1;
    }
    return 1;
}

/* Gives all of a chain this tag and these wildcards; `tag` below 0 leaves it. */
static void retag(struct plan *p, int first, int tag, int any_tag, int any_source)
{
    for (int i = first; i < p->n; ++i) {
        struct message *m = &p->of[i];
        if (i != first && (m->kind != CHAIN || m->first != first)) continue;
        if (tag >= 0) m->tag = tag;
        m->any_tag = any_tag, m->any_source = any_source;
    }
}

static void draw_plan(struct plan *p)
{
    p->n = 0;
    int wanted = 4 + (int)draw(MOST - 12);
    for (int at = 0; p->n < wanted; at += STEP) {
        struct message *m;
        int side = (int)draw(2), shift = (int)draw(STEP - 8) + 4;
        switch (draw(8)) {
        case 0: /* a word that the receive is there, then the message in ready mode */
            m = new_message(p, READY, side);
            draw_times(m, at + shift, 60);
            m->taken = at - 1 - (int)draw(60);
            if (m->sent < at + 1) m->sent = at + 1;
            if (m->taken_end == at + shift) m->taken_end += 1 + (int)draw(60);
            struct message *token = new_message(p, TOKEN, !side);
            token->source = m->dest, token->dest = m->source, token->units = token->room = 0, token->signature = 0;
            draw_times(token, at, 1);
            token->sent = token->sent_end = token->taken = token->taken_end = at;
            break;
        case 1: { /* one each way at once */
            m = new_message(p, EXCHANGE, side);
            struct message *back = new_message(p, EXCHANGE, !side);
            back->source = m->dest, back->dest = m->source, back->first = (int)(m - p->of), m->first = p->n - 1;
            if (draw(2)) back->signature = m->signature, back->units = back->room = m->units;
            m->sent = m->sent_end = m->taken = m->taken_end = at;
            back->sent = back->sent_end = back->taken = back->taken_end = at;
            break;
        }
        case 2: { /* several of the same kind, one after the other: persistent ones, as a rule */
            int first = p->n, length = 2 + (int)draw(3);
            for (int i = 0; i < length; ++i, at += STEP) {
                m = new_message(p, CHAIN, side);
                struct message *f = &p->of[first];
                m->source = f->source, m->dest = f->dest, m->tag = f->tag, m->signature = f->signature;
                m->units = m->room = f->units, m->first = first;
                draw_times(m, at, STEP / 2 - 1);
            }
            break;
        }
        default:
            m = new_message(p, PLAIN, side);
            draw_times(m, at + shift, draw(3) ? 30 : 200);
            unsigned room = draw(8);
            if (room == 0) m->room += 1 + (int)draw(5);
            else if (room == 1 && m->units > 0) m->room = (int)draw((unsigned)m->units), m->truncated = 1;
        }
    }
    /* No two messages at one time, but for the halves of an exchange. */
    for (int i = 0; i < p->n; ++i) {
        struct message *m = &p->of[i];
        int by = m->kind == EXCHANGE && m->first < i ? m->first : i;
        m->sent = m->sent * MOST + by, m->sent_end = m->sent_end * MOST + by;
        m->taken = m->taken * MOST + by, m->taken_end = m->taken_end * MOST + by;
    }
    for (int i = 0; i < p->n; ++i) {
        const struct message before = p->of[i];
        if (before.kind == TOKEN || (before.kind == CHAIN && before.first != i)) continue;
        if (draw(2)) {
            retag(p, i, (int)draw(3), 0, 0);
            if (!is_determinate(p)) retag(p, i, before.tag, 0, 0);
        }
        int any_tag = draw(3) == 0, any_source = draw(3) == 0;
        retag(p, i, -1, any_tag, any_source);
        if (!is_determinate(p)) retag(p, i, -1, 0, 0);
    }
}

#endif
