/* How a rank of random.c carries out its events: the calls are its own taste, as long as they begin and end as planned. */
#ifndef RANDOM_RUN_H
#define RANDOM_RUN_H

/* One side of a message on this rank. */
struct half {
    struct buffer *buffer;
    MPI_Request request;
    int persistent; /* how: the request is kept */
    int freed;      /* the request was given up under way */
    int code;
    int over;       /* has a result, as below */
    int source, tag, count, elements;
    uint64_t sum;
};

static __thread MPI_Comm inter, meeting, local, own; /* own: this thread alone */
static __thread int side, me, counterparts;
static __thread struct plan plan;
static __thread struct half out[MOST], in[MOST];
static __thread FILE *story;
static int left_out; /* what of random_faults.h */
static __thread long spent; /* messages received */

enum { BUFFERED_MOST = 70000 };

static int is_fused(int begin, int end) { return begin == end; }

/* What follows it in a chain has its buffer and its request. */
static struct half *half_of(struct half *halves, int i)
{
    return &halves[plan.of[i].kind == CHAIN ? plan.of[i].first : i];
}

static struct buffer *buffer_of(struct half *h, const struct message *m, int units)
{
    /* The sides have it each in their own way; an exchange may go by one buffer. */
    const struct message *named = m->kind == EXCHANGE && m->side ? &plan.of[m->first] : m;
    if (!h->buffer) h->buffer = make_buffer(m->signature, units, named->seed * (uint64_t)(side + 1));
    return h->buffer;
}

/* ---- results ---- */

static void sent_over(int i, int code)
{
    const struct message *m = &plan.of[i];
    struct half *h = half_of(out, i);
    out[i].over = 1;
    OK(code);
    CHECK(holds_units(h->buffer, m->units, m->seed), "the send buffer of message %d was changed", i);
}

/* Of a truncated message MPIs tell different things, and leave different things. */
static void taken_over(int i, int code, MPI_Status *status)
{
    const struct message *m = &plan.of[i];
    struct half *h = half_of(in, i), *r = &in[i];
    int cancelled = -1;
    r->over = 1, r->code = code == MPI_SUCCESS ? 0 : kit_class(code) == MPI_ERR_TRUNCATE ? 1 : 2;
    ++spent;
    if (m->room < m->units) {
        SAME(r->code, 1);
        CHECK(is_guarded(h->buffer), "message %d was written beyond its buffer %s", i, told(h->buffer));
        return;
    }
    OK(code);
    OK(MPI_Test_cancelled(status, &cancelled));
    SAME(cancelled, 0);
    r->source = status->MPI_SOURCE, r->tag = status->MPI_TAG;
    r->count = r->elements = 0;
    if (m->room > 0) {
        OK(MPI_Get_count(status, h->buffer->type, &r->count));
        OK(MPI_Get_elements(status, h->buffer->type, &r->elements));
    }
    if (r->count == MPI_UNDEFINED) r->count = -1;
    r->sum = sum_of(h->buffer->memory, h->buffer->bytes);
    CHECK(holds_units(h->buffer, m->units, m->seed), "message %d of %d units %s", i, m->units, told(h->buffer));
}

/* ---- beginnings ---- */

static int start_send(int i)
{
    const struct message *m = &plan.of[i];
    struct half *h = half_of(out, i);
    struct buffer *b = buffer_of(h, m, m->units);
    write_units(b, m->units, m->seed);
    void *at = b->origin;
    int small = (long)m->units * b->of->bytes <= BUFFERED_MOST;
    unsigned how = taste(small ? 3 : 2);
    if (h->persistent) {
        OK(MPI_Start(&h->request));
        return 0;
    }
    if (m->kind == CHAIN || taste(4) == 0) {
        if (m->kind == READY) OK(MPI_Rsend_init(at, b->count, b->type, m->dest, m->tag, inter, &h->request));
        else if (how == 0) OK(MPI_Send_init(at, b->count, b->type, m->dest, m->tag, inter, &h->request));
        else if (how == 1) OK(MPI_Ssend_init(at, b->count, b->type, m->dest, m->tag, inter, &h->request));
        else OK(MPI_Bsend_init(at, b->count, b->type, m->dest, m->tag, inter, &h->request));
        h->persistent = 1;
        if (taste(2)) OK(MPI_Start(&h->request));
        else OK(MPI_Startall(1, &h->request));
        return 0;
    }
    if (m->kind == READY) OK(MPI_Irsend(at, b->count, b->type, m->dest, m->tag, inter, &h->request));
    else if (how == 0) OK(MPI_Isend(at, b->count, b->type, m->dest, m->tag, inter, &h->request));
    else if (how == 1) OK(MPI_Issend(at, b->count, b->type, m->dest, m->tag, inter, &h->request));
    else OK(MPI_Ibsend(at, b->count, b->type, m->dest, m->tag, inter, &h->request));
    if (taste(8) == 0) {
        OK(MPI_Request_free(&h->request));
        CHECK(h->request == MPI_REQUEST_NULL);
        h->freed = 1;
    }
    return 0;
}

/* A probe of either kind; what it says must be what was planned. */
static void probe_for(const struct message *m, int matched, void *message)
{
    int source = m->any_source ? MPI_ANY_SOURCE : m->source, tag = m->any_tag ? MPI_ANY_TAG : m->tag;
    int flag = 0, nonblocking = (int)taste(2);
    MPI_Status status;
    (void)message;
    while (!flag) {
#ifndef LAM_MPI
        if (matched && nonblocking) POLL(MPI_Improbe(source, tag, inter, &flag, message, &status));
        else if (matched) POLL((flag = 1, MPI_Mprobe(source, tag, inter, message, &status)));
        else
#endif
            if (nonblocking) POLL(MPI_Iprobe(source, tag, inter, &flag, &status));
            else POLL((flag = 1, MPI_Probe(source, tag, inter, &status)));
        if (!flag) sched_yield();
    }
    SAME(status.MPI_SOURCE, m->source);
    SAME(status.MPI_TAG, m->tag);
    int count = -1;
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    SAME(count, (long)m->units * signatures[m->signature].bytes);
    (void)matched;
}

static struct buffer *receiving(int i)
{
    struct half *h = half_of(in, i);
    struct buffer *b = buffer_of(h, &plan.of[i], plan.of[i].room);
    clear(b);
    return b;
}

static void start_receive(int i)
{
    const struct message *m = &plan.of[i];
    struct half *h = half_of(in, i);
    struct buffer *b = receiving(i);
    int source = m->any_source ? MPI_ANY_SOURCE : m->source, tag = m->any_tag ? MPI_ANY_TAG : m->tag;
    if (h->persistent) {
        OK(MPI_Startall(1, &h->request));
        return;
    }
    if (m->kind == CHAIN || (m->room >= m->units && taste(4) == 0)) { /* Open MPI ends one that was truncated */
        OK(MPI_Recv_init(b->origin, b->count, b->type, source, tag, inter, &h->request));
        OK(MPI_Start(&h->request));
        h->persistent = 1;
        return;
    }
#ifndef LAM_MPI
    MPI_Message message;
    if (m->sent < m->taken && taste(2)) { /* it is on its way */
        probe_for(m, 1, &message);
        OK(MPI_Imrecv(b->origin, b->count, b->type, &message, &h->request));
        return;
    }
#endif
    OK(MPI_Irecv(b->origin, b->count, b->type, source, tag, inter, &h->request));
}

/* ---- ends ---- */

struct entry {
    int message; /* below 0: one that only keeps it company */
    int is_send, active;
};

enum { COMPANY = 6, CROWD = 16 + COMPANY };

static void entry_over(const struct entry *e, int code, MPI_Status *status)
{
    if (e->message < 0) {
        OK(code);
        return;
    }
    if (e->is_send) sent_over(e->message, code);
    else taken_over(e->message, code, status);
}

/* `looked_at`: it may be looked at before. */
static int wait_one(MPI_Request *request, MPI_Status *status, int looked_at)
{
    int flag = 0, code = MPI_SUCCESS;
    unsigned how = taste(looked_at ? 4 : 3);
#ifndef LAM_MPI
    if (how == 3) {
        while (!flag) {
            POLL(MPI_Request_get_status(*request, &flag, status));
            if (!flag) sched_yield();
        }
        how = 1;
        flag = 0;
    }
#endif
    if (how == 2) return MPI_Wait(request, status);
    while (!flag && code == MPI_SUCCESS) {
        code = MPI_Test(request, &flag, status);
        if (!flag) sched_yield();
    }
    return code;
}

/* Ends all of an array, by one of the calls that can. */
static void wait_all(int n, MPI_Request *requests, struct entry *entries)
{
    MPI_Status statuses[CROWD], status;
    int indices[CROWD], flag = 0, some = 0, which = MPI_UNDEFINED, left = 0, only_sends = 1;
    for (int k = 0; k < n; ++k) left += entries[k].active, only_sends &= !entries[k].active || entries[k].is_send;
    unsigned how = taste(6);
    if (how < 2) {
        MPI_Status *all = only_sends && taste(2) ? MPI_STATUSES_IGNORE : statuses;
        if (how == 0) OK(MPI_Waitall(n, requests, all));
        while (how == 1 && !flag) {
            POLL(MPI_Testall(n, requests, &flag, all));
            if (!flag) sched_yield();
        }
        for (int k = 0; k < n; ++k)
            if (entries[k].active) entry_over(&entries[k], MPI_SUCCESS, &statuses[k]);
        return;
    }
    while (left > 0) {
        some = 0;
        if (how == 2) POLL((flag = 1, MPI_Waitany(n, requests, &which, &status)));
        else if (how == 3) POLL(MPI_Testany(n, requests, &which, &flag, &status));
        else if (how == 4) POLL(MPI_Waitsome(n, requests, &some, indices, statuses));
        else POLL(MPI_Testsome(n, requests, &some, indices, statuses));
        if (how < 4 && flag) some = 1, indices[0] = which, statuses[0] = status;
        if (some == 0) sched_yield();
        CHECK(some != MPI_UNDEFINED, "%d requests are left", left);
        for (int k = 0; k < some; ++k) {
            CHECK(indices[k] >= 0 && indices[k] < n && entries[indices[k]].active, "index %d", indices[k]);
            if (indices[k] < 0 || indices[k] >= n) MPI_Abort(MPI_COMM_WORLD, 1);
            entries[indices[k]].active = 0;
            entry_over(&entries[indices[k]], MPI_SUCCESS, &statuses[k]);
            --left;
        }
    }
    /* Nothing active is left, which all of them say. */
    flag = 1;
    if (how == 2) OK(MPI_Waitany(n, requests, &which, &status));
    if (how == 3) OK(MPI_Testany(n, requests, &which, &flag, &status));
    if (how == 4) OK(MPI_Waitsome(n, requests, &some, indices, statuses));
    if (how == 5) OK(MPI_Testsome(n, requests, &some, indices, statuses));
    SAME(flag, 1);
    SAME(how < 4 ? which : some, MPI_UNDEFINED);
}

/* Ends these, in an array with others: null requests, ones that are not started, native ones. */
static void end_together(int n, const struct entry *ends)
{
    MPI_Request requests[CROWD];
    struct entry entries[CROWD];
    MPI_Request *homes[CROWD] = {NULL};
    int company = (int)taste(3), sent = 4711, got = 0;
    for (int k = 0; k < n; ++k) {
        struct half *h = half_of(ends[k].is_send ? out : in, ends[k].message);
        entries[k] = ends[k], homes[k] = &h->request, requests[k] = h->request;
    }
    if (company == 1) requests[n] = MPI_REQUEST_NULL, entries[n++] = (struct entry){-1, 1, 0};
    if (company == 2) {
        OK(MPI_Irecv(&got, 1, MPI_INT, 0, 3, own, &requests[n]));
        entries[n++] = (struct entry){-1, 0, 1};
        OK(MPI_Isend(&sent, 1, MPI_INT, 0, 3, own, &requests[n]));
        entries[n++] = (struct entry){-1, 1, 1};
    }
    for (int k = 0; k < plan.n && taste(3) && n < CROWD; ++k)
        if (out[k].persistent && out[k].over && plan.of[k].kind != CHAIN)
            homes[n] = &out[k].request, requests[n] = out[k].request, entries[n++] = (struct entry){-1, 1, 0};
    for (int k = n - 1; k > 0; --k) {
        int with = (int)taste((unsigned)k + 1);
        MPI_Request request = requests[k], *home = homes[k];
        struct entry entry = entries[k];
        requests[k] = requests[with], homes[k] = homes[with], entries[k] = entries[with];
        requests[with] = request, homes[with] = home, entries[with] = entry;
    }
    wait_all(n, requests, entries);
    for (int k = 0; k < n; ++k)
        if (homes[k]) *homes[k] = requests[k];
    if (company == 2) SAME(got, sent);
}

static void end_one(const struct entry *e)
{
    struct half *h = half_of(e->is_send ? out : in, e->message);
    const struct message *m = &plan.of[e->message];
    MPI_Status status;
    int truncated = !e->is_send && m->room < m->units, loses = h->persistent && left_out & PERSISTENT_STATUS;
    if (e->is_send && taste(2)) sent_over(e->message, MPI_Wait(&h->request, MPI_STATUS_IGNORE));
    else entry_over(e, wait_one(&h->request, &status, !truncated && !loses), &status);
    CHECK(h->persistent || h->request == MPI_REQUEST_NULL);
}

/* ---- calls that block ---- */

static void send_now(int i)
{
    const struct message *m = &plan.of[i];
    if (m->kind == CHAIN || taste(3) == 0) {
        struct entry e = {i, 1, 1};
        start_send(i);
        if (!half_of(out, i)->freed) end_one(&e);
        return;
    }
    struct buffer *b = buffer_of(&out[i], m, m->units);
    write_units(b, m->units, m->seed);
    unsigned how = taste((long)m->units * b->of->bytes <= BUFFERED_MOST ? 3 : 2);
    int code;
    if (m->kind == READY) code = MPI_Rsend(b->origin, b->count, b->type, m->dest, m->tag, inter);
    else if (how == 0) code = MPI_Send(b->origin, b->count, b->type, m->dest, m->tag, inter);
    else if (how == 1) code = MPI_Ssend(b->origin, b->count, b->type, m->dest, m->tag, inter);
    else code = MPI_Bsend(b->origin, b->count, b->type, m->dest, m->tag, inter);
    sent_over(i, code);
}

static void receive_now(int i)
{
    const struct message *m = &plan.of[i];
    int source = m->any_source ? MPI_ANY_SOURCE : m->source, tag = m->any_tag ? MPI_ANY_TAG : m->tag;
    int truncated = m->room < m->units;
    MPI_Status status;
    if (m->kind == CHAIN || (!truncated && taste(4) == 0)) {
        struct entry e = {i, 0, 1};
        start_receive(i);
        end_one(&e);
        return;
    }
    struct buffer *b = receiving(i);
    unsigned how = truncated ? 0 : taste(4);
#ifndef LAM_MPI
    MPI_Message message;
    if (how == 3) {
        probe_for(m, 1, &message);
        taken_over(i, MPI_Mrecv(b->origin, b->count, b->type, &message, &status), &status);
        return;
    }
#endif
    if (how >= 2) {
        probe_for(m, 0, NULL);
        source = m->source, tag = m->tag;
    }
    int code = MPI_Recv(b->origin, b->count, b->type, source, tag, inter, &status);
    taken_over(i, code, &status);
}

static void exchange(int o, int i)
{
    const struct message *m = &plan.of[o], *r = &plan.of[i];
    int source = r->any_source ? MPI_ANY_SOURCE : r->source, tag = r->any_tag ? MPI_ANY_TAG : r->tag, code;
    struct buffer *b = buffer_of(&out[o], m, m->units);
    MPI_Status status;
    write_units(b, m->units, m->seed);
    if (m->signature == r->signature && m->units == r->units && taste(2)) {
#ifdef HAVE_4
        if (!(left_out & ISENDRECV) && taste(2)) {
            OK(MPI_Isendrecv_replace(b->origin, b->count, b->type, m->dest, m->tag, source, tag, inter, &in[i].request));
            code = wait_one(&in[i].request, &status, 1);
        } else
#endif
            code = MPI_Sendrecv_replace(b->origin, b->count, b->type, m->dest, m->tag, source, tag, inter, &status);
        out[o].over = 1;
        in[i].buffer = b, out[o].buffer = NULL;
        taken_over(i, code, &status);
        return;
    }
    struct buffer *to = receiving(i);
#ifdef HAVE_4
    if (!(left_out & ISENDRECV) && taste(2)) {
        OK(MPI_Isendrecv(b->origin, b->count, b->type, m->dest, m->tag, to->origin, to->count, to->type, source, tag, inter,
                         &in[i].request));
        code = wait_one(&in[i].request, &status, 1);
    } else
#endif
        code = MPI_Sendrecv(b->origin, b->count, b->type, m->dest, m->tag, to->origin, to->count, to->type, source, tag,
                            inter, &status);
    sent_over(o, code);
    taken_over(i, code, &status);
}

#endif
