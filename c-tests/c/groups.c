/* One of two or three jobs, each joined to all others: `groups ME SEED ROUNDS OTHER...`, the others in the same order
 * everywhere. Groups of processes of several jobs, against a model: every process has a number, and a group is a list of
 * numbers. This job's processes have their ranks in MPI_COMM_WORLD for numbers; the others come behind. */
#include "kit.h"

enum { MOST = 16, OTHERS = 2, POOL = 12, PROGRAMS = 4 };

struct group {
    MPI_Group handle;
    int n, id[MOST];
};

static int me, size, others;
static struct other {
    int size, first;
    /* Over all of both jobs: joined twice, duplicated, split with the ranks turned round, and by names that were
     * registered with the ranks turned round. */
    MPI_Comm inter, again, dup, split, turned;
} other[OTHERS];

/* The world, then the others, by rank. */
static struct group base[1 + OTHERS];

static MPI_Group group_of(MPI_Comm comm)
{
    MPI_Group group;
    OK(MPI_Comm_group(comm, &group));
    return group;
}

static MPI_Group remote_of(MPI_Comm comm)
{
    MPI_Group group;
    OK(MPI_Comm_remote_group(comm, &group));
    return group;
}

/* The empty group may be the MPI's own, which not every MPI lets go. */
static void let_go(MPI_Group *group)
{
    if (*group == MPI_GROUP_EMPTY) return;
    OK(MPI_Group_free(group));
    CHECK(*group == MPI_GROUP_NULL);
}

static struct group numbered(MPI_Group handle, int n, int first)
{
    struct group group = {handle, n, {0}};
    for (int i = 0; i < n; ++i) group.id[i] = first + i;
    return group;
}

/* ---- the model ---- */

static int place(const struct group *group, int id)
{
    for (int i = 0; i < group->n; ++i)
        if (group->id[i] == id) return i;
    return MPI_UNDEFINED;
}

static void add(struct group *to, int id) { to->id[to->n++] = id; }

static int likeness(const struct group *a, const struct group *b)
{
    int same = a->n == b->n, ident = same;
    for (int i = 0; i < a->n && same; ++i) {
        same = place(b, a->id[i]) != MPI_UNDEFINED;
        ident = ident && b->id[i] == a->id[i];
    }
    return !same ? MPI_UNEQUAL : ident ? MPI_IDENT : MPI_SIMILAR;
}

static int is_native(const struct group *group)
{
    for (int i = 0; i < group->n; ++i)
        if (group->id[i] >= size) return 0;
    return 1;
}

/* ---- what MPI says, and what the model says ---- */

static void translates(const struct group *from, const struct group *to)
{
    int in[MOST + 2], out[MOST + 2], n = 0;
    /* Of groups of its own MPICH 4 gives MPI_PROC_NULL no rank in an empty one, and LAM none at all. */
    int nobody = !is_native(from) || !is_native(to);
    if (nobody) in[n++] = MPI_PROC_NULL;
    for (int i = from->n; i--;) in[n++] = i;
    if (nobody) in[n++] = MPI_PROC_NULL;
    OK(MPI_Group_translate_ranks(from->handle, n, in, to->handle, out));
    for (int i = 0; i < n; ++i)
        SAME(out[i], in[i] == MPI_PROC_NULL ? MPI_PROC_NULL : place(to, from->id[in[i]]));
}

static void compares(const struct group *a, const struct group *b)
{
    int result = -1;
    OK(MPI_Group_compare(a->handle, b->handle, &result));
    SAME(result, likeness(a, b));
}

static void is_so(const struct group *group)
{
    int n = -1, rank = -1;
    OK(MPI_Group_size(group->handle, &n));
    SAME(n, group->n);
    OK(MPI_Group_rank(group->handle, &rank));
    SAME(rank, place(group, me));
    for (int k = 0; k <= others; ++k) {
        translates(group, &base[k]);
        translates(&base[k], group);
    }
}

/* A group without members of other jobs is as good as any in a call of the MPI's; all others are refused. */
static void serves(const struct group *group)
{
    MPI_Comm made = MPI_COMM_NULL;
    if (!is_native(group)) {
        REFUSED(MPI_Comm_create(MPI_COMM_WORLD, group->handle, &made), MPI_ERR_GROUP);
        return;
    }
    if (!group->n) return; /* a communicator of nobody: not every MPI makes it */
    OK(MPI_Comm_create(MPI_COMM_WORLD, group->handle, &made));
    SAME(made == MPI_COMM_NULL, place(group, me) == MPI_UNDEFINED);
    if (made == MPI_COMM_NULL) return;
    struct group same = *group;
    same.handle = group_of(made);
    compares(&same, group);
    let_go(&same.handle);
    OK(MPI_Comm_free(&made));
}

enum { UNION, INTERSECTION, DIFFERENCE };

static struct group combine(int how, const struct group *a, const struct group *b)
{
    struct group made = {MPI_GROUP_NULL, 0, {0}};
    if (how == UNION)
        OK(MPI_Group_union(a->handle, b->handle, &made.handle));
    else if (how == INTERSECTION)
        OK(MPI_Group_intersection(a->handle, b->handle, &made.handle));
    else
        OK(MPI_Group_difference(a->handle, b->handle, &made.handle));
    for (int i = 0; i < a->n; ++i)
        if (how == UNION || (place(b, a->id[i]) != MPI_UNDEFINED) == (how == INTERSECTION)) add(&made, a->id[i]);
    for (int i = 0; i < b->n && how == UNION; ++i)
        if (place(a, b->id[i]) == MPI_UNDEFINED) add(&made, b->id[i]);
    return made;
}

enum { INCL, EXCL, RANGE_INCL, RANGE_EXCL };

/* `ranks` are those that the ranges stand for. */
static struct group choose(int how, const struct group *from, int n, int *ranks, int count, int (*ranges)[3])
{
    struct group made = {MPI_GROUP_NULL, 0, {0}};
    if (how == INCL) OK(MPI_Group_incl(from->handle, n, ranks, &made.handle));
    if (how == EXCL) OK(MPI_Group_excl(from->handle, n, ranks, &made.handle));
    if (how == RANGE_INCL) OK(MPI_Group_range_incl(from->handle, count, ranges, &made.handle));
    if (how == RANGE_EXCL) OK(MPI_Group_range_excl(from->handle, count, ranges, &made.handle));
    if (how == INCL || how == RANGE_INCL) {
        for (int i = 0; i < n; ++i) add(&made, from->id[ranks[i]]);
        return made;
    }
    for (int i = 0; i < from->n; ++i) {
        int named = 0;
        for (int k = 0; k < n; ++k) named |= ranks[k] == i;
        if (!named) add(&made, from->id[i]);
    }
    return made;
}

/* ---- sections ---- */

/* Remote groups are the same processes, whichever way they came. */
static void remote(void)
{
    for (int j = 0; j < others; ++j) {
        struct other *o = &other[j];
        MPI_Comm inters[] = {o->inter, o->again, o->dup, o->split, o->turned};
        for (int k = 0; k < 5; ++k) {
            struct group far = numbered(remote_of(inters[k]), o->size, o->first);
            struct group near = numbered(group_of(inters[k]), size, 0);
            for (int i = 0; i < o->size && k > 2; ++i) far.id[i] = o->first + o->size - 1 - i;
            for (int i = 0; i < size && k > 2; ++i) near.id[i] = size - 1 - i;
            is_so(&far);
            is_so(&near);
            for (int b = 0; b <= others; ++b) {
                compares(&far, &base[b]);
                compares(&base[b], &near);
            }
            compares(&far, &near);
            serves(&near);
            serves(&far);
            let_go(&far.handle);
            let_go(&near.handle);
        }
    }
}

/* Nothing that the program frees is needed by what it has made of it. */
static void kept(void)
{
    struct group mine = numbered(group_of(MPI_COMM_WORLD), size, 0), all = {MPI_GROUP_NULL, 0, {0}};
    all = combine(UNION, &base[1], &mine);
    struct group both = combine(UNION, &all, &base[others]);
    let_go(&mine.handle);
    /* Others may come in its place. */
    MPI_Group filler[8];
    for (int i = 0; i < 8; ++i) OK(MPI_Group_incl(base[0].handle, 1, (int[]){i % size}, &filler[i]));
    is_so(&all);
    let_go(&all.handle);
    is_so(&both);
    struct group again = combine(DIFFERENCE, &both, &base[1]);
    again = combine(INTERSECTION, &again, &base[0]);
    is_so(&again);
    compares(&again, &base[0]);
    serves(&again);
    for (int i = 0; i < 8; ++i) let_go(&filler[i]);
    let_go(&both.handle);
}

/* MPI_GROUP_EMPTY with others. */
static void empty(void)
{
    struct group none = {MPI_GROUP_EMPTY, 0, {0}};
    for (int how = UNION; how <= DIFFERENCE; ++how)
        for (int turn = 0; turn < 2; ++turn) {
            struct group made = turn ? combine(how, &none, &base[1]) : combine(how, &base[1], &none);
            is_so(&made);
            compares(&made, turn ? &none : &base[1]);
            let_go(&made.handle);
        }
    translates(&none, &base[1]);
    translates(&base[1], &none);
    for (int how = INCL; how <= RANGE_EXCL; ++how) {
        struct group made = choose(how, &base[1], 0, NULL, 0, NULL);
        is_so(&made);
        let_go(&made.handle);
    }
    /* The process itself, in a group that only it has. */
    struct group self = {group_of(MPI_COMM_SELF), 1, {me}}, more = combine(UNION, &base[1], &self);
    is_so(&more);
    struct group back = combine(DIFFERENCE, &more, &base[1]);
    compares(&back, &self);
    let_go(&self.handle);
    let_go(&more.handle);
    let_go(&back.handle);
}

/* Whatever is made and freed, over and over, is gone. */
static void gone(void)
{
    enum { TIMES = 20000 };
    long before = 0, room = 2048;
#ifdef LAM_MPI
    room += TIMES * 2 * 128L / 1024; /* handles of ours are addresses here, which are used in turn, 16 MiB of them */
#endif
    for (int i = 0; i < TIMES + 1000; ++i) {
        MPI_Group far, all, rest;
        if (i == 1000) before = kit_status_kib("VmRSS");
        POLL(MPI_Comm_remote_group(other[0].inter, &far));
        POLL(MPI_Group_union(base[0].handle, far, &all));
        POLL(MPI_Group_difference(all, far, &rest));
        POLL(MPI_Group_free(&far));
        POLL(MPI_Group_free(&all));
        POLL(MPI_Group_free(&rest));
    }
    long grown = kit_status_kib("VmRSS") - before;
    CHECK(grown < room, "%ld KiB more after %d times", grown, TIMES);
}

static int handler_calls, handler_code;
static void count_calls(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    ++handler_calls;
    handler_code = *code;
}

/* The error handler of MPI_COMM_WORLD hears of it, once. */
#define RAISED(call, wanted) \
    do { \
        handler_calls = 0; \
        REFUSED(call, wanted); \
        SAME(handler_calls, 1); \
        SAME(kit_class(handler_code), wanted); \
    } while (0)

static void freed(MPI_Group group)
{
    MPI_Group made, far = base[1].handle;
    int ranks[1] = {0}, ranges[1][3] = {{0, 0, 1}}, n;
    RAISED(MPI_Group_size(group, &n), MPI_ERR_GROUP);
    RAISED(MPI_Group_rank(group, &n), MPI_ERR_GROUP);
    RAISED(MPI_Group_incl(group, 1, ranks, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_excl(group, 1, ranks, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_range_incl(group, 1, ranges, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_range_excl(group, 1, ranges, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_free(&group), MPI_ERR_GROUP);
    for (int k = 0; k < 2; ++k) {
        MPI_Group with = base[k].handle;
        RAISED(MPI_Group_union(group, with, &made), MPI_ERR_GROUP);
        RAISED(MPI_Group_union(with, group, &made), MPI_ERR_GROUP);
        RAISED(MPI_Group_compare(with, group, &n), MPI_ERR_GROUP);
        RAISED(MPI_Group_translate_ranks(group, 1, ranks, with, &n), MPI_ERR_GROUP);
    }
    RAISED(MPI_Group_intersection(group, far, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_difference(far, group, &made), MPI_ERR_GROUP);
}

static void errors(void)
{
    MPI_Group made = MPI_GROUP_NULL, far = base[1].handle, all, null = MPI_GROUP_NULL;
    MPI_Errhandler handler;
    int n = base[1].n, ranks[3] = {0, 0, 0}, there[3], result;
    OK(MPI_Comm_create_errhandler(count_calls, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    OK(MPI_Errhandler_free(&handler));

    RAISED(MPI_Group_union(far, null, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_union(null, far, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_intersection(far, null, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_difference(null, far, &made), MPI_ERR_GROUP);
    RAISED(MPI_Group_compare(null, far, &result), MPI_ERR_GROUP);
    RAISED(MPI_Group_translate_ranks(far, 1, ranks, null, there), MPI_ERR_GROUP);
    RAISED(MPI_Group_translate_ranks(null, 1, ranks, far, there), MPI_ERR_GROUP);

    const int bad[] = {-1, n, n + 100, MPI_PROC_NULL, MPI_UNDEFINED};
    for (int k = 0; k < 5; ++k) {
        ranks[1] = bad[k];
        RAISED(MPI_Group_incl(far, 2, ranks, &made), MPI_ERR_RANK);
        RAISED(MPI_Group_excl(far, 2, ranks, &made), MPI_ERR_RANK);
        if (bad[k] == MPI_PROC_NULL) continue;
        RAISED(MPI_Group_translate_ranks(far, 2, ranks, base[0].handle, there), MPI_ERR_RANK);
        RAISED(MPI_Group_translate_ranks(far, 2, ranks, far, there), MPI_ERR_RANK);
    }
    ranks[1] = 0;
    RAISED(MPI_Group_incl(far, 2, ranks, &made), MPI_ERR_RANK);
    RAISED(MPI_Group_excl(far, 2, ranks, &made), MPI_ERR_RANK);
    ranks[1] = size;
    RAISED(MPI_Group_translate_ranks(base[0].handle, 2, ranks, far, there), MPI_ERR_RANK);

    int ranges[][3] = {{0, 0, 0}, {0, n - 1, -1}, {0, n, 1}, {-1, 0, 1}, {n, 0, -1}, {0, -2, -1}};
    for (int k = n == 1 ? 2 : 0; k < 6; ++k) {
        RAISED(MPI_Group_range_incl(far, 1, &ranges[k], &made), MPI_ERR_ARG);
        RAISED(MPI_Group_range_excl(far, 1, &ranges[k], &made), MPI_ERR_ARG);
    }
    int twice[2][3] = {{0, n - 1, 1}, {n - 1, n - 1, 1}};
    RAISED(MPI_Group_range_incl(far, 2, twice, &made), MPI_ERR_ARG);
    RAISED(MPI_Group_range_excl(far, 2, twice, &made), MPI_ERR_ARG);

    RAISED(MPI_Group_incl(far, -1, ranks, &made), MPI_ERR_ARG);
    RAISED(MPI_Group_excl(far, -1, ranks, &made), MPI_ERR_ARG);
    RAISED(MPI_Group_range_incl(far, -1, ranges, &made), MPI_ERR_ARG);
    RAISED(MPI_Group_range_excl(far, -1, ranges, &made), MPI_ERR_ARG);
    RAISED(MPI_Group_translate_ranks(far, -1, ranks, far, there), MPI_ERR_ARG);
    RAISED(MPI_Group_incl(far, 1, NULL, &made), MPI_ERR_ARG);
    RAISED(MPI_Group_range_excl(far, 1, NULL, &made), MPI_ERR_ARG);
    RAISED(MPI_Group_translate_ranks(far, 1, NULL, far, there), MPI_ERR_ARG);
    RAISED(MPI_Group_translate_ranks(far, 1, ranks, far, NULL), MPI_ERR_ARG);
    RAISED(MPI_Group_union(far, far, NULL), MPI_ERR_ARG);
    RAISED(MPI_Group_incl(far, 1, ranks, NULL), MPI_ERR_ARG);
    RAISED(MPI_Group_compare(far, far, NULL), MPI_ERR_ARG);
    CHECK(made == MPI_GROUP_NULL);

    far = remote_of(other[0].inter);
    OK(MPI_Group_union(far, base[0].handle, &all));
    for (int k = 0; k < 2; ++k) {
        MPI_Group *group = k ? &all : &far, copy = *group;
        OK(MPI_Group_free(group));
        freed(copy);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

/* Calls that would need these processes in a communicator or window of the MPI's. */
static void refused(void)
{
    struct group all = combine(UNION, &base[0], &base[1]);
    serves(&all);
    serves(&base[1]);
#ifndef LAM_MPI
    MPI_Comm made;
    REFUSED(MPI_Comm_create_group(MPI_COMM_WORLD, all.handle, 3, &made), MPI_ERR_GROUP);
    REFUSED(MPI_Win_post(all.handle, 0, MPI_WIN_NULL), MPI_ERR_GROUP);
    REFUSED(MPI_Win_start(all.handle, 0, MPI_WIN_NULL), MPI_ERR_GROUP);
#endif
    let_go(&all.handle);
}

/* ---- random programs: the same in all processes of a job ---- */

static uint64_t seed, drawn;
static int below(int n) { return (int)(kit_word(seed, ++drawn) % (uint64_t)n); }

static struct group fresh(void)
{
    int k = below(2 + 2 * others);
    if (k == 0) return (struct group){MPI_GROUP_EMPTY, 0, {0}};
    if (k == 1) return numbered(group_of(MPI_COMM_WORLD), size, 0);
    struct other *o = &other[k / 2 - 1];
    return numbered(remote_of(k % 2 ? o->again : o->inter), o->size, o->first);
}

static struct group random_choice(int how, const struct group *from)
{
    int ranks[MOST], n = 0, ranges[3][3], count = 0, taken[MOST] = {0};
    if (how == INCL || how == EXCL) {
        for (int i = from->n ? below(from->n + 1) : 0; i--;) {
            int rank = below(from->n);
            if (!taken[rank]) ranks[n++] = rank;
            taken[rank] = 1;
        }
        return choose(how, from, n, ranks, 0, NULL);
    }
    for (int i = from->n ? below(4) : 0; i--;) {
        int first = below(from->n), last = below(from->n), stride = (1 + below(3)) * (last < first ? -1 : 1), clash = 0;
        for (int r = first; stride > 0 ? r <= last : r >= last; r += stride) clash |= taken[r];
        if (clash) continue;
        for (int r = first; stride > 0 ? r <= last : r >= last; r += stride) taken[ranks[n++] = r] = 1;
        memcpy(ranges[count++], (int[]){first, last, stride}, sizeof ranges[0]);
    }
    return choose(how, from, n, ranks, count, ranges);
}

/* How many groups had members here and elsewhere, and how many members the largest had. */
static int mixed, largest;

static void random_program(int rounds)
{
    struct group pool[POOL];
    for (int i = 0; i < POOL; ++i) pool[i] = fresh();
    for (int round = 0; round < rounds; ++round) {
        const struct group *a = &pool[below(POOL)], *b = &pool[below(POOL)];
        /* Most of the others make smaller groups. */
        int how = below(11), foreign;
        struct group made = how < 7 ? combine(how < 5 ? UNION : how - 4, a, b) : random_choice(how - 7, a);
        is_so(&made);
        compares(&made, b);
        compares(a, &made);
        translates(&made, b);
        translates(a, b);
        foreign = !is_native(&made);
        for (int i = 0; i < made.n && foreign; ++i)
            if (made.id[i] < size) {
                ++mixed;
                break;
            }
        if (made.n > largest) largest = made.n;
        if (round % 4 == 0) serves(&made);
        int slot = below(POOL);
        let_go(&pool[slot].handle);
        pool[slot] = made;
        if (round % 3 == 0) {
            slot = below(POOL);
            let_go(&pool[slot].handle);
            pool[slot] = fresh();
        }
        if (kit_failures) {
            printf("FAIL %s rank %d in round %d of seed %llu\n", kit_label, me, round, (unsigned long long)seed);
            break;
        }
    }
    for (int i = 0; i < POOL; ++i) let_go(&pool[i].handle);
}

int main(int argc, char **argv)
{
    int handle, handle_turned;
    char name[64];
    MPI_Comm turned;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me;
    kit_label = argv[1];
    others = argc - 4;
    if (others < 1 || others > OTHERS) return 2;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &turned));
    snprintf(name, sizeof name, "%s-turned", argv[1]);
    OK(MPI_Conn_register(name, turned, &handle_turned));
    base[0] = numbered(group_of(MPI_COMM_WORLD), size, 0);
    for (int j = 0, first = size; j < others; ++j) {
        struct other *o = &other[j];
        OK(MPI_Conn_intercomm_create(handle, argv[4 + j], &o->inter));
        OK(MPI_Conn_intercomm_create(handle, argv[4 + j], &o->again));
        snprintf(name, sizeof name, "%s-turned", argv[4 + j]);
        OK(MPI_Conn_intercomm_create(handle_turned, name, &o->turned));
        OK(MPI_Comm_dup(o->inter, &o->dup));
        OK(MPI_Comm_split(o->inter, 0, -me, &o->split));
        OK(MPI_Comm_remote_size(o->inter, &o->size));
        o->first = first;
        first += o->size;
        base[1 + j] = numbered(remote_of(o->inter), o->size, o->first);
    }
    remote();
    empty();
    kept();
    errors();
    refused();
    gone();
    seed = strtoull(argv[2], NULL, 10);
    for (int k = 0; k < PROGRAMS; ++k, ++seed) {
        if (me == 0) printf("SEED %llu\n", (unsigned long long)seed);
        random_program(atoi(argv[3]));
    }
    CHECK(mixed > PROGRAMS * atoi(argv[3]) / 20, "%d of the random groups are mixed", mixed);
    SAME(largest, base[others].id[0] + base[others].n);
    for (int k = 0; k <= others; ++k) is_so(&base[k]);
    for (int k = 0; k <= others; ++k) let_go(&base[k].handle);
    for (int j = 0; j < others; ++j) {
        MPI_Comm *all[] = {&other[j].inter, &other[j].again, &other[j].dup, &other[j].split, &other[j].turned};
        for (int k = 0; k < 5; ++k) OK(MPI_Comm_free(all[k]));
    }
    OK(MPI_Conn_remove(handle));
    OK(MPI_Conn_remove(handle_turned));
    OK(MPI_Comm_free(&turned));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
