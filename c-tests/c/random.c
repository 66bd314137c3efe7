/* Random programs of sends and receives over an inter-communicator, which say what came of them.
 *
 *   random native FIRST  LOG THREADS SEED PROGRAMS    one job: its first FIRST ranks are one side, the others the other
 *   random MINE THEIRS SIDE  LOG THREADS SEED PROGRAMS    one side, joined with another job
 *
 * Each rank writes `LOG-SIDE-RANK-THREAD`, and that must be the same whoever carried the messages. Each thread has an
 * inter-communicator and programs of its own. In one job, and where threads may not call MPI, they run one after the
 * other: Open MPI 4 itself does not survive them.
 *
 * What is left out, since MPIs disagree on it: the field MPI_ERROR; types of negative extent (MPICH moves some in another
 * order), and neighbours in descending order (Open MPI takes them for ascending); Cancel of sends; Get_count of types
 * without data; Request_free of active receives. LAM has no matched probes, no Request_get_status and no Isendrecv. What an
 * MPI gets wrong by itself: random_faults.h. */
#include "kit.h"
#include <pthread.h>
#include <sched.h>

#include "random_draw.h"
#include "random_types.h"
#include "random_plan.h"
#include "random_faults.h"
#include "random_run.h"

/* ---- events of this rank ---- */

enum what { BEGIN_SEND, BEGIN_RECEIVE, BOTH, SEND, RECEIVE, END_SEND, END_RECEIVE };

struct event {
    int time, message;
    enum what what;
};

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    return x->time != y->time ? (x->time < y->time ? -1 : 1) : (int)x->what - (int)y->what;
}

static int my_events(struct event *events)
{
    int n = 0;
    for (int i = 0; i < plan.n; ++i) {
        const struct message *m = &plan.of[i];
        int sender = m->side == side && m->source == me, receiver = m->side != side && m->dest == me;
        if (m->kind == EXCHANGE) {
            if (sender) events[n++] = (struct event){m->sent, i, BOTH};
            continue;
        }
        if (sender && is_fused(m->sent, m->sent_end)) events[n++] = (struct event){m->sent, i, SEND};
        else if (sender) {
            events[n++] = (struct event){m->sent, i, BEGIN_SEND};
            events[n++] = (struct event){m->sent_end, i, END_SEND};
        }
        if (receiver && is_fused(m->taken, m->taken_end)) events[n++] = (struct event){m->taken, i, RECEIVE};
        else if (receiver) {
            events[n++] = (struct event){m->taken, i, BEGIN_RECEIVE};
            events[n++] = (struct event){m->taken_end, i, END_RECEIVE};
        }
    }
    qsort(events, (size_t)n, sizeof *events, by_time);
    return n;
}

/* ---- receives that never get a message ---- */

enum { GHOSTS = 4 };
static __thread MPI_Request ghosts[GHOSTS];
static __thread char ghostly[GHOSTS];

static void end_ghost(int g)
{
    MPI_Status status;
    int flag = -1;
    if (ghosts[g] == MPI_REQUEST_NULL) return;
    OK(MPI_Test(&ghosts[g], &flag, &status));
    SAME(flag, 0);
    OK(MPI_Cancel(&ghosts[g]));
    if (taste(2)) {
        OK(MPI_Request_free(&ghosts[g]));
    } else {
        OK(MPI_Wait(&ghosts[g], &status));
        OK(MPI_Test_cancelled(&status, &flag));
        SAME(flag, 1);
    }
    CHECK(ghosts[g] == MPI_REQUEST_NULL);
    SAME(ghostly[g], 'g');
}

/* What may happen between any two events. */
static void amuse(void)
{
    int g = (int)taste(GHOSTS), flag = -1;
    MPI_Status status;
    switch (taste(24)) {
    case 0:
        if (ghosts[g] != MPI_REQUEST_NULL) break;
        ghostly[g] = 'g';
        OK(MPI_Irecv(&ghostly[g], 1, MPI_CHAR, taste(2) ? MPI_ANY_SOURCE : (int)taste((unsigned)counterparts), NEVER_TAG,
                     inter, &ghosts[g]));
        break;
    case 1: end_ghost(g); break;
    case 2:
        OK(MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, 5, inter, &status));
        SAME(status.MPI_SOURCE, MPI_PROC_NULL);
        SAME(status.MPI_TAG, MPI_ANY_TAG);
        break;
    case 3: OK(MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 5, inter)); break;
    case 4:
        OK(MPI_Iprobe(MPI_ANY_SOURCE, NEVER_TAG, inter, &flag, &status));
        SAME(flag, 0);
        break;
    default:;
    }
}

/* ---- acts ---- */

/* All that was sent before has been received. On an inter-communicator for this alone: a rank that is still taking what
 * comes, of any tag, must not take the word that the others are done. */
static void meet(void)
{
    int word = 1;
    OK(MPI_Barrier(local));
    if (me == 0)
        OK(MPI_Sendrecv_replace(&word, 1, MPI_INT, 0, 1, 0, 1, meeting, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(local));
}

static void run_events(void)
{
    struct event events[4 * MOST];
    int n = my_events(events);
    for (int e = 0; e < n;) {
        struct entry ends[CROWD];
        int crowd = 0, i = events[e].message;
        amuse();
        switch (events[e].what) {
        case BEGIN_SEND: start_send(i); break;
        case BEGIN_RECEIVE: start_receive(i); break;
        case BOTH: exchange(i, plan.of[i].first); break;
        case SEND: send_now(i); break;
        case RECEIVE: receive_now(i); break;
        default:
            for (; e < n && events[e].what >= END_SEND && crowd < CROWD - COMPANY; ++e) {
                int is_send = events[e].what == END_SEND;
                const struct message *m = &plan.of[events[e].message];
                if (is_send && half_of(out, events[e].message)->freed) continue;
                ends[crowd++] = (struct entry){events[e].message, is_send, 1};
                /* Errors come one by one. */
                if (!is_send && m->room < m->units) {
                    end_one(&ends[--crowd]);
                    ++e;
                    break;
                }
                if (taste(8) == 0) {
                    ++e;
                    break;
                }
            }
            if (crowd == 1) end_one(&ends[0]);
            else if (crowd > 0) end_together(crowd, ends);
            continue;
        }
        ++e;
    }
    for (int g = 0; g < GHOSTS; ++g) end_ghost(g);
}

static void act(int number)
{
    memset(out, 0, sizeof out);
    memset(in, 0, sizeof in);
    draw_plan(&plan);
    for (int i = 0; i < plan.n; ++i) {
        struct message *m = &plan.of[i];
        int spared = left_out & (m->any_source ? TRUNCATION | TRUNCATION_OF_ANY : TRUNCATION);
        if (m->truncated && spared) m->room = m->units;
    }
    run_events();
    meet();
    for (int i = 0; i < plan.n; ++i) {
        struct half *r = &in[i];
        if (r->over && !plan.of[i].truncated)
            fprintf(story, "act %d message %d received: %d from %d tag %d count %d elements %d sum %016llx\n", number, i,
                    r->code, r->source, r->tag, r->count, r->elements, (unsigned long long)r->sum);
        for (int to = 0; to < 2; ++to) {
            struct half *h = to ? &in[i] : &out[i];
            if (h->persistent) OK(MPI_Request_free(&h->request));
            free_buffer(h->buffer);
        }
    }
}

/* Messages from everybody to everybody, taken as they come: each once, and those of one source in order. */
static void flood(int number)
{
    enum { EACH = 24, WORDS = 6000 };
    int each = (int)draw(EACH) + 1, total = each * counterparts, tags[3] = {0}, n = 0, from[16] = {0};
    int *sent = kit_alloc((size_t)total * WORDS * sizeof(int)), *got = kit_alloc(EACH * WORDS * sizeof(int));
    MPI_Request *requests = kit_alloc((size_t)total * sizeof *requests), receives[EACH];
    MPI_Status statuses[EACH];
    uint64_t sum = 0;
    for (int to = 0; to < 2; ++to) /* the messages to side `to` */
        for (int k = 0; k < each * plan.sizes[0] * plan.sizes[1]; ++k) {
            int source = k % plan.sizes[!to], dest = k / plan.sizes[!to] % plan.sizes[to];
            int tag = (int)draw(3), words = 3 + (int)draw(draw(6) ? 100 : WORDS - 3);
            if (to == side && dest == me) ++tags[tag];
            if (to == side || source != me) continue;
            int *at = sent + (size_t)n * WORDS;
            for (int w = 3; w < words; ++w) at[w] = (int)kit_word((uint64_t)k, (uint64_t)w);
            at[0] = k, at[1] = tag, at[2] = words;
            OK(MPI_Isend(at, words, MPI_INT, dest, FLOOD_TAG + tag, inter, &requests[n++]));
        }
    int by_tag = (int)taste(2), last[16][3];
    memset(last, -1, sizeof last);
    for (int done = 0, tag = 0; done < total;) {
        int batch = 1, left = total - done;
        while (by_tag && tags[tag] == 0) ++tag;
        if (by_tag) left = tags[tag];
        int wanted = by_tag ? FLOOD_TAG + tag : MPI_ANY_TAG;
        unsigned how = taste(4);
        if (how == 0) {
            batch = 1 + (int)taste((unsigned)(left < EACH ? left : EACH));
            for (int b = 0; b < batch; ++b)
                OK(MPI_Irecv(got + b * WORDS, WORDS, MPI_INT, MPI_ANY_SOURCE, wanted, inter, &receives[b]));
            OK(MPI_Waitall(batch, receives, statuses));
        } else if (how == 1) {
            OK(MPI_Probe(MPI_ANY_SOURCE, wanted, inter, statuses));
            OK(MPI_Recv(got, WORDS, MPI_INT, statuses->MPI_SOURCE, statuses->MPI_TAG, inter, statuses));
#ifndef LAM_MPI
        } else if (how == 2) {
            MPI_Message message;
            OK(MPI_Mprobe(MPI_ANY_SOURCE, wanted, inter, &message, statuses));
            OK(MPI_Mrecv(got, WORDS, MPI_INT, &message, statuses));
#endif
        } else
            OK(MPI_Recv(got, WORDS, MPI_INT, MPI_ANY_SOURCE, wanted, inter, statuses));
        for (int b = 0; b < batch; ++b, ++done, ++spent) {
            const int *at = got + b * WORDS;
            int count = -1, source = statuses[b].MPI_SOURCE;
            OK(MPI_Get_count(&statuses[b], MPI_INT, &count));
            SAME(count, at[2]);
            SAME(statuses[b].MPI_TAG, FLOOD_TAG + at[1]);
            SAME(source, at[0] % counterparts);
            if (source < 0 || source >= counterparts) MPI_Abort(MPI_COMM_WORLD, 1);
            int *before = by_tag ? &last[source][at[1]] : &last[source][0];
            CHECK(at[0] > *before, "%d after %d of rank %d", at[0], *before, source);
            *before = at[0], ++from[source];
            uint64_t hash = (uint64_t)at[0] << 20 | (uint64_t)at[1];
            for (int w = 2; w < at[2] && w < WORDS; ++w) hash = kit_word(hash, (uint64_t)(unsigned)at[w]);
            sum += hash;
            if (by_tag) --tags[tag];
        }
    }
    OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int s = 0; s < counterparts; ++s) SAME(from[s], each);
    fprintf(story, "flood %d received: %d sum %016llx\n", number, total, (unsigned long long)sum);
    free(sent), free(got), free(requests);
    meet();
}

/* ---- programs ---- */

struct part {
    pthread_t thread;
    int number, side, sizes[2];
    MPI_Comm inter, meeting, local, own;
    const char *log;
    long seed, programs, messages;
};

static void *play(void *of)
{
    struct part *p = of;
    char path[4096];
    inter = p->inter, meeting = p->meeting, local = p->local, own = p->own, side = p->side;
    memcpy(plan.sizes, p->sizes, sizeof p->sizes);
    counterparts = p->sizes[!side];
    for (int g = 0; g < GHOSTS; ++g) ghosts[g] = MPI_REQUEST_NULL;
    OK(MPI_Comm_rank(local, &me));
    const char *dir = getenv("MPI_CONNECT_TEST_DIR");
    snprintf(path, sizeof path, "%s/%s-%d-%d-%d", dir ? dir : ".", p->log, side, me, p->number);
    story = fopen(path, "w");
    if (!story) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (long k = 0; k < p->programs; ++k) {
        long seed = p->seed + k;
        draw_state = ((uint64_t)seed << 8 | (uint64_t)p->number) * 0x9E3779B97F4A7C15u;
        taste_state = draw_state ^ ((uint64_t)(side + 1) << 40 | (uint64_t)me) * 0xD1B54A32D192ED03u;
        for (int i = 0; i < 8; ++i) draw(2), taste(2);
        int structs = seed % 2 == 0;
        if (structs && left_out & STRUCTS) continue;
        plan.signatures = structs ? SIGNATURES : BASIC;
        fprintf(story, "program %ld\n", seed);
        for (int number = 0; number < 2; ++number) act(number);
        flood(0);
        act(2);
        fflush(story);
    }
    fclose(story);
    p->messages = spent;
    spent = 0;
    return NULL;
}

enum { THREADS = 4 };

int main(int argc, char **argv)
{
    struct part parts[THREADS];
    MPI_Comm group = MPI_COMM_NULL;
    int world, first = 0, provided = 0, one_job = argc > 1 && !strcmp(argv[1], "native"), rest = one_job ? 3 : 4;
    int threads = argc == rest + 4 ? atoi(argv[rest + 1]) : 0;
    if (threads < 1 || threads > THREADS) {
        fprintf(stderr, "random (native FIRST | MINE THEIRS SIDE) LOG THREADS SEED PROGRAMS\n");
        return 2;
    }
    int wanted = threads > 1 && !one_job ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &world));
    kit_label = argv[rest];
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)); /* MPICH's Wait asks this one */
    fill_signatures();
    int mine;
    if (one_job) {
        first = atoi(argv[2]), mine = kit_rank >= first;
        OK(MPI_Comm_split(MPI_COMM_WORLD, mine, kit_rank, &group));
    } else {
        mine = atoi(argv[3]);
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &group));
    }
    int handle = -1;
    (void)handle;
#ifndef KIT_NATIVE
    if (!one_job) OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
#endif
    for (int t = 0; t < threads; ++t) {
        struct part *p = &parts[t];
        p->number = t, p->side = mine, p->log = argv[rest], p->seed = atol(argv[rest + 2]), p->programs = atol(argv[rest + 3]);
        OK(MPI_Comm_dup(group, &p->local));
        OK(MPI_Comm_dup(MPI_COMM_SELF, &p->own));
        for (int of = 0; of < 2; ++of) {
            MPI_Comm *made = of ? &p->meeting : &p->inter;
            if (one_job) OK(MPI_Intercomm_create(p->local, 0, MPI_COMM_WORLD, mine ? 0 : first, 70 + t, made));
#ifndef KIT_NATIVE
            else OK(MPI_Conn_intercomm_create(handle, argv[2], made));
#endif
        }
        OK(MPI_Comm_set_errhandler(p->inter, MPI_ERRORS_RETURN));
        OK(MPI_Comm_size(p->inter, &p->sizes[mine]));
        OK(MPI_Comm_remote_size(p->inter, &p->sizes[!mine]));
    }
#ifndef KIT_NATIVE
    if (!one_job) OK(MPI_Conn_remove(handle));
#endif
    left_out = one_job && !getenv("MPI_CONNECT_ADOPT") ? faults() : 0;
    size_t room = (size_t)threads * ((size_t)MOST * (BUFFERED_MOST + 4096));
    void *attached = kit_alloc(room);
    int detached = 0;
    OK(MPI_Buffer_attach(attached, (int)room));
    int together = threads > 1 && provided == MPI_THREAD_MULTIPLE;
    for (int t = 0; t < threads; ++t) {
        if (together) pthread_create(&parts[t].thread, NULL, play, &parts[t]);
        else play(&parts[t]);
    }
    long messages = 0;
    for (int t = 0; t < threads; ++t) {
        if (together) pthread_join(parts[t].thread, NULL);
        messages += parts[t].messages;
    }
    OK(MPI_Buffer_detach(&attached, &detached));
    free(attached);
    for (int t = 0; t < threads; ++t) {
        OK(MPI_Comm_free(&parts[t].inter));
        OK(MPI_Comm_free(&parts[t].meeting));
        OK(MPI_Comm_free(&parts[t].local));
        OK(MPI_Comm_free(&parts[t].own));
    }
    OK(MPI_Comm_free(&group));
    printf("MESSAGES %ld\n", messages);
    fflush(stdout);
    int result = kit_end();
    MPI_Finalize();
    return result;
}
