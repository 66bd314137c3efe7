/* One half of a pair of jobs: `objects NAME OTHER SIDE SECTION...`. What a program may do with an inter-communicator as
 * an object: duplicates, parts, attributes, comparison, error handlers, its end. Sizes of the jobs may differ. */
#include "sides.h"

#if MPI_VERSION >= 3
#define HAVE_3
#endif

/* Every rank swaps a word with every rank of the other side. */
static void swap(MPI_Comm comm, int tag, int word)
{
    int local, remote, rank;
    OK(MPI_Comm_size(comm, &local));
    OK(MPI_Comm_remote_size(comm, &remote));
    OK(MPI_Comm_rank(comm, &rank));
    int in[64], out = word * 100 + rank;
    MPI_Request requests[128];
    for (int p = 0; p < remote; ++p) {
        in[p] = -1;
        OK(MPI_Irecv(&in[p], 1, MPI_INT, p, tag, comm, &requests[2 * p]));
        OK(MPI_Isend(&out, 1, MPI_INT, p, tag, comm, &requests[2 * p + 1]));
    }
    OK(MPI_Waitall(2 * remote, requests, MPI_STATUSES_IGNORE));
    for (int p = 0; p < remote; ++p) SAME(in[p], word * 100 + p);
}

static void meet(void)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    swap(inter, 31000, 7);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* ---- attributes and duplicates */

static int copies, deletes, copy_answer = MPI_SUCCESS;
static MPI_Comm copied_from;

static int on_copy(MPI_Comm comm, int keyval, void *extra, void *value, void *to, int *flag)
{
    (void)keyval;
    ++copies;
    copied_from = comm;
    CHECK(extra == &copies);
    *(void **)to = (char *)value + 1;
    *flag = 1;
    return copy_answer;
}

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value;
    ++deletes;
    CHECK(extra == &copies);
    return MPI_SUCCESS;
}

static long attribute(MPI_Comm comm, int keyval)
{
    void *value = NULL;
    int flag = -1;
    OK(MPI_Comm_get_attr(comm, keyval, &value, &flag));
    return flag ? (long)(intptr_t)value : -1;
}

static void twins(void)
{
    int keyval, lost, result, flag, size, length;
    char text[MPI_MAX_OBJECT_NAME] = "";
    MPI_Comm twin, grandchild;
    copies = deletes = 0;
    OK(MPI_Comm_create_keyval(on_copy, on_delete, &keyval, &copies));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &lost, &copies));
    OK(MPI_Comm_set_attr(inter, keyval, (void *)40));
    OK(MPI_Comm_set_attr(inter, lost, (void *)50));
    OK(MPI_Comm_set_name(inter, "parent"));
    OK(MPI_Comm_dup(inter, &twin));
    SAME(copies, 1);
    CHECK(copied_from == inter, "the callback is given the program's own handle");
    CHECK(twin != inter);
    SAME(attribute(twin, keyval), 41);
    SAME(attribute(twin, lost), -1);
    SAME(attribute(inter, keyval), 40);
    OK(MPI_Comm_get_name(twin, text, &length));
    CHECK(strcmp(text, "parent"), "names are not inherited");
    OK(MPI_Comm_test_inter(twin, &flag));
    SAME(flag, 1);
    OK(MPI_Comm_remote_size(twin, &size));
    SAME(size, theirs);
    OK(MPI_Comm_size(twin, &size));
    SAME(size, mine);
    OK(MPI_Comm_compare(inter, twin, &result));
    SAME(result, MPI_CONGRUENT);
    OK(MPI_Comm_compare(twin, twin, &result));
    SAME(result, MPI_IDENT);
    {
        int *here, *there;
        OK(MPI_Comm_get_attr(inter, MPI_TAG_UB, &here, &flag));
        OK(MPI_Comm_get_attr(twin, MPI_TAG_UB, &there, &flag));
        SAME(flag, 1);
        SAME(*here, *there);
    }
    /* Messages of one are none of the other's. */
    for (int p = 0; p < theirs; ++p) {
        OK(MPI_Send(&side, 1, MPI_INT, p, 5, inter));
        OK(MPI_Send(&me, 1, MPI_INT, p, 5, twin));
    }
    for (int p = 0; p < theirs; ++p) {
        int got = -1;
        OK(MPI_Recv(&got, 1, MPI_INT, p, MPI_ANY_TAG, twin, MPI_STATUS_IGNORE));
        SAME(got, p);
        OK(MPI_Recv(&got, 1, MPI_INT, p, MPI_ANY_TAG, inter, MPI_STATUS_IGNORE));
        SAME(got, !side);
    }
    OK(MPI_Comm_dup(twin, &grandchild));
    SAME(copies, 2);
    SAME(attribute(grandchild, keyval), 42);
    OK(MPI_Comm_free(&twin));
    CHECK(twin == MPI_COMM_NULL);
    SAME(deletes, 1);
    swap(grandchild, 6, 3);
    OK(MPI_Comm_free(&grandchild));
    SAME(deletes, 2);
    /* A callback that refuses: then there is no duplicate, and the next ones are not confused. */
    copy_answer = MPI_ERR_OTHER;
    twin = MPI_COMM_NULL;
    CHECK(MPI_Comm_dup(inter, &twin) != MPI_SUCCESS);
    SAME(copies, 3);
    copy_answer = MPI_SUCCESS;
    OK(MPI_Comm_delete_attr(inter, keyval));
    OK(MPI_Comm_delete_attr(inter, lost));
    OK(MPI_Comm_free_keyval(&keyval));
    OK(MPI_Comm_free_keyval(&lost));
    OK(MPI_Comm_dup(inter, &twin));
    swap(twin, 7, 4);
    OK(MPI_Comm_free(&twin));
}

/* One side makes several and sends on all of them before the other makes the first. */
static void ahead(void)
{
    enum { TWINS = 5 };
    MPI_Comm twins[TWINS], child;
    int words[TWINS], got;
    if (side == 1) swap(inter, 8, 1);
    for (int t = 0; t < TWINS; ++t) {
        OK(MPI_Comm_dup(t ? twins[t - 1] : inter, &twins[t]));
        words[t] = t * 10 + me;
        if (side == 0)
            for (int p = 0; p < theirs; ++p) OK(MPI_Send(&words[t], 1, MPI_INT, p, 9, twins[t]));
    }
    if (side == 0) swap(inter, 8, 1);
    for (int t = TWINS - 1; side == 1 && t >= 0; --t)
        for (int p = 0; p < theirs; ++p) {
            OK(MPI_Recv(&got, 1, MPI_INT, p, 9, twins[t], MPI_STATUS_IGNORE));
            SAME(got, t * 10 + p);
        }
    for (int t = 0; t < TWINS; ++t) swap(twins[t], 10, t);
    /* Parents go before their children. */
    OK(MPI_Comm_dup(twins[TWINS - 1], &child));
    for (int t = 0; t < TWINS; ++t) OK(MPI_Comm_free(&twins[t]));
    swap(child, 11, 2);
    OK(MPI_Comm_free(&child));
}

#ifdef HAVE_3
static void with_info(void)
{
    MPI_Info info;
    MPI_Comm twins[3];
    MPI_Request requests[4];
    int in[64], got, keyval;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "false"));
    OK(MPI_Comm_dup_with_info(inter, info, &twins[0]));
    swap(twins[0], 12, 5);
    OK(MPI_Comm_set_info(twins[0], info));
    MPI_Info used;
    OK(MPI_Comm_get_info(twins[0], &used));
    OK(MPI_Info_free(&used));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&twins[0]));
    /* Nonblocking ones, several at once, among requests of both kinds. */
    copies = deletes = 0;
    OK(MPI_Comm_create_keyval(on_copy, on_delete, &keyval, &copies));
    OK(MPI_Comm_set_attr(inter, keyval, (void *)60));
    int peer = me % theirs;
    OK(MPI_Irecv(in, 64, MPI_INT, peer, 13, inter, &requests[0]));
    OK(MPI_Comm_idup(inter, &twins[0], &requests[1]));
    OK(MPI_Comm_idup(inter, &twins[1], &requests[2]));
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]));
    for (int p = 0; p < theirs; ++p)
        if (p % mine == me || (me < theirs && p == me)) OK(MPI_Send(&me, 1, MPI_INT, p, 13, inter));
    for (int p = 0; p < theirs; ++p)
        if (!(p % mine == me || (me < theirs && p == me))) OK(MPI_Send(&me, 1, MPI_INT, p, 13, inter));
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    SAME(copies, 2);
    for (int p = 0; p < theirs; ++p)
        if (p != peer) {
            OK(MPI_Recv(&got, 1, MPI_INT, p, 13, inter, MPI_STATUS_IGNORE));
            SAME(got, p);
        }
    SAME(in[0], peer);
    SAME(attribute(twins[0], keyval), 61);
    SAME(attribute(twins[1], keyval), 61);
    OK(MPI_Comm_delete_attr(inter, keyval));
    swap(twins[1], 14, 1);
    swap(twins[0], 14, 2);
    /* A rank in a collective call of its own job while the others wait for the duplicate. */
    OK(MPI_Comm_idup(twins[0], &twins[2], &requests[0]));
    if (me == 0) OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    if (me != 0) OK(MPI_Barrier(MPI_COMM_WORLD));
    swap(twins[2], 15, 6);
    for (int t = 0; t < 3; ++t) OK(MPI_Comm_free(&twins[t]));
    SAME(deletes, 4);
    OK(MPI_Comm_free_keyval(&keyval));
    /* By host: all are on one. */
    int size;
    OK(MPI_Comm_split_type(inter, MPI_COMM_TYPE_SHARED, -me, MPI_INFO_NULL, &twins[0]));
    OK(MPI_Comm_rank(twins[0], &got));
    SAME(got, mine - 1 - me);
    OK(MPI_Comm_remote_size(twins[0], &size));
    SAME(size, theirs);
    swap(twins[0], 25, 3);
    OK(MPI_Comm_free(&twins[0]));
    OK(MPI_Comm_split_type(inter, me == 0 ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0, MPI_INFO_NULL, &twins[0]));
    CHECK((twins[0] != MPI_COMM_NULL) == (me == 0));
    if (me == 0) OK(MPI_Comm_free(&twins[0]));
    REFUSED(MPI_Comm_split_type(inter, 12345, 0, MPI_INFO_NULL, &twins[0]), MPI_ERR_ARG);
}
#endif

/* ---- parts */

static void parts(void)
{
    MPI_Comm part, smaller;
    int rank, size, result, flag;
    /* The same processes, in the opposite order on both sides. */
    OK(MPI_Comm_split(inter, 0, -me, &part));
    OK(MPI_Comm_rank(part, &rank));
    SAME(rank, mine - 1 - me);
    OK(MPI_Comm_test_inter(part, &flag));
    SAME(flag, 1);
    swap(part, 16, 2);
    OK(MPI_Comm_compare(inter, part, &result));
    SAME(result, mine > 1 || theirs > 1 ? MPI_SIMILAR : MPI_CONGRUENT);
    int to = theirs - 1 - me % theirs, word = 500 + rank, got = -1;
    for (int p = 0; p < theirs; ++p)
        if (p == to) {
            MPI_Request request;
            OK(MPI_Isend(&word, 1, MPI_INT, p, 17, part, &request));
            OK(MPI_Request_free(&request));
        }
    for (int p = 0; p < theirs; ++p)
        if (mine - 1 - (theirs - 1 - p) % mine == rank) {
            OK(MPI_Recv(&got, 1, MPI_INT, p, 17, part, MPI_STATUS_IGNORE));
            SAME(got, 500 + p);
        }
    OK(MPI_Comm_free(&part));
    /* Even and odd ranks; a side of one has no odd ones. */
    OK(MPI_Comm_split(inter, me % 2, 0, &part));
    int meets = me % 2 == 0 || theirs > 1;
    CHECK((part != MPI_COMM_NULL) == meets);
    if (meets) {
        OK(MPI_Comm_remote_size(part, &size));
        SAME(size, (theirs + 1 - me % 2) / 2);
        OK(MPI_Comm_rank(part, &rank));
        SAME(rank, me / 2);
        swap(part, 18, 3);
        OK(MPI_Comm_compare(inter, part, &result));
        SAME(result, mine == 1 && theirs == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
        OK(MPI_Comm_split(part, 4, 0, &smaller));
        swap(smaller, 19, 4);
        OK(MPI_Comm_free(&smaller));
        OK(MPI_Comm_free(&part));
    }
    /* Colors of one side only, and none. */
    OK(MPI_Comm_split(inter, side, 0, &part));
    CHECK(part == MPI_COMM_NULL);
    OK(MPI_Comm_split(inter, me == 0 ? 3 : MPI_UNDEFINED, 0, &part));
    CHECK((part != MPI_COMM_NULL) == (me == 0));
    if (me == 0) {
        swap(part, 20, 5);
        OK(MPI_Comm_free(&part));
    }
    /* A fault on one process of one side fails on all of both. */
    part = MPI_COMM_NULL;
    REFUSED(MPI_Comm_split(inter, side == 0 && me == mine - 1 ? -5 : 0, 0, &part), MPI_ERR_ARG);
    CHECK(part == MPI_COMM_NULL);
    OK(MPI_Comm_split(inter, 0, me, &part));
    swap(part, 21, 6);
    OK(MPI_Comm_compare(inter, part, &result));
    SAME(result, MPI_CONGRUENT);
    OK(MPI_Comm_free(&part));
}

static void create(void)
{
    MPI_Group local, group, foreign;
    MPI_Comm part;
    int rank, size, first = mine - 1;
    OK(MPI_Comm_group(inter, &local));
    /* The last rank before the first. */
    int ranks[2] = {first, 0}, count = mine > 1 ? 2 : 1;
    OK(MPI_Group_incl(local, count, ranks, &group));
    OK(MPI_Comm_create(inter, group, &part));
    CHECK((part != MPI_COMM_NULL) == (me == first || me == 0));
    if (part != MPI_COMM_NULL) {
        OK(MPI_Comm_rank(part, &rank));
        SAME(rank, me == first ? 0 : 1);
        OK(MPI_Comm_remote_size(part, &size));
        SAME(size, theirs > 1 ? 2 : 1);
        swap(part, 22, 1);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Group_free(&group));
    /* Nobody on one side: nobody on either. */
    part = (MPI_Comm)0;
    OK(MPI_Comm_create(inter, side ? local : MPI_GROUP_EMPTY, &part));
    CHECK(part == MPI_COMM_NULL);
    /* Processes that are not of the local group. */
    OK(MPI_Comm_remote_group(inter, &foreign));
    REFUSED(MPI_Comm_create(inter, side ? local : foreign, &part), side ? MPI_ERR_ARG : MPI_ERR_GROUP);
    OK(MPI_Group_free(&foreign));
    OK(MPI_Group_free(&local));
    OK(MPI_Comm_split(inter, 0, 0, &part));
    swap(part, 23, 2);
    OK(MPI_Comm_free(&part));
}

/* ---- errors */

static int heard, heard_class;
static MPI_Comm heard_on;

static void hear(MPI_Comm *comm, int *code, ...)
{
    ++heard;
    heard_on = *comm;
    heard_class = kit_class(*code);
}

static void handlers(void)
{
    MPI_Errhandler own, got;
    MPI_Comm twin, part;
    int word = 1;
    OK(MPI_Comm_create_errhandler(hear, &own));
    OK(MPI_Comm_dup(inter, &twin));
    OK(MPI_Comm_set_errhandler(twin, own));
    heard = 0;
    MPI_Send(&word, 1, MPI_INT, theirs, 0, twin);
    SAME(heard, 1);
    SAME(heard_class, MPI_ERR_RANK);
    CHECK(heard_on == twin);
    /* The parent's own stays as it was, and what is made from the twin inherits its. */
    REFUSED(MPI_Send(&word, 1, MPI_INT, theirs, 0, inter), MPI_ERR_RANK);
    SAME(heard, 1);
    OK(MPI_Comm_split(twin, 0, 0, &part));
    MPI_Send(&word, 1, MPI_INT, 0, -5, part);
    SAME(heard, 2);
    SAME(heard_class, MPI_ERR_TAG);
    CHECK(heard_on == part);
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_dup(twin, &part));
    MPI_Recv(&word, -1, MPI_INT, 0, 5, part, MPI_STATUS_IGNORE);
    SAME(heard, 3);
    SAME(heard_class, MPI_ERR_COUNT);
    CHECK(heard_on == part);
    OK(MPI_Comm_get_errhandler(part, &got));
    CHECK(got == own);
    OK(MPI_Errhandler_free(&own));
#ifndef LAM_MPI /* its get gives no reference, and it has no call of this name */
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Comm_call_errhandler(part, MPI_ERR_OTHER));
    SAME(heard, 4);
#endif
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_free(&twin));
}

/* What makes no sense on an inter-communicator, or is not made for one. */
static void refused(void)
{
    MPI_Comm out;
    int dims = 1, periods = 0, rank, topology;
    REFUSED(MPI_Cart_create(inter, 1, &dims, &periods, 0, &out), MPI_ERR_COMM);
    REFUSED(MPI_Graph_create(inter, 1, &dims, &periods, 0, &out), MPI_ERR_COMM);
    REFUSED(MPI_Cartdim_get(inter, &rank), MPI_ERR_COMM);
    OK(MPI_Topo_test(inter, &topology));
    SAME(topology, MPI_UNDEFINED);
    REFUSED(MPI_Intercomm_merge(inter, side, &out), MPI_ERR_COMM);
    REFUSED(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 1, &out), MPI_ERR_COMM);
#ifndef LAM_MPI
    MPI_Win window;
    MPI_File file;
    REFUSED(MPI_Win_create(&rank, sizeof rank, 1, MPI_INFO_NULL, inter, &window), MPI_ERR_COMM);
    REFUSED(MPI_File_open(inter, kit_path("none"), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), MPI_ERR_COMM);
#endif
#ifdef HAVE_3
    MPI_Group local;
    OK(MPI_Comm_group(inter, &local));
    REFUSED(MPI_Comm_create_group(inter, local, 5, &out), MPI_ERR_COMM);
    OK(MPI_Group_free(&local));
#endif
}

/* ---- the end */

/* Disconnect waits for what is under way; free does not, and what is under way goes on. */
static void ends(void)
{
    enum { WORDS = 1 << 20 };
    MPI_Comm twin;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int flag;
    uint64_t *out = kit_alloc(WORDS * 8), *in = kit_alloc(WORDS * 8);
    int peer = me % (mine < theirs ? mine : theirs), talks = me < theirs;
    for (int wait = 0; wait < 2; ++wait) {
        kit_fill(out, WORDS * 8, 1000 + (uint64_t)(side * 64 + me));
        memset(in, 0, WORDS * 8);
        OK(MPI_Comm_dup(inter, &twin));
        if (talks) {
            OK(MPI_Irecv(in, WORDS, MPI_DOUBLE, peer, 3, twin, &requests[0]));
            OK(MPI_Issend(out, WORDS, MPI_DOUBLE, peer, 3, twin, &requests[1]));
        }
        if (wait) OK(MPI_Comm_disconnect(&twin));
        else OK(MPI_Comm_free(&twin));
        CHECK(twin == MPI_COMM_NULL);
        if (talks && wait) {
            OK(MPI_Testall(2, requests, &flag, statuses));
            SAME(flag, 1);
        } else if (talks) {
            OK(MPI_Waitall(2, requests, statuses));
        }
        if (talks) HOLDS(in, WORDS * 8, 1000 + (uint64_t)(!side * 64 + peer));
    }
    free(out);
    free(in);
    /* A sender may be gone from it before its message is received. */
    OK(MPI_Comm_dup(inter, &twin));
    if (side == 0 && talks) OK(MPI_Send(&me, 1, MPI_INT, peer, 4, twin));
    if (side == 0) OK(MPI_Comm_disconnect(&twin));
    meet();
    if (side == 1 && talks) {
        int got = -1;
        OK(MPI_Recv(&got, 1, MPI_INT, peer, 4, twin, MPI_STATUS_IGNORE));
        SAME(got, peer);
    }
    if (side == 1) OK(MPI_Comm_disconnect(&twin));
}

/* A side whose MPI can make no more: then the other gets none either. */
static void exhausted(void)
{
    enum { MOST = 3000 };
    static MPI_Comm made[MOST];
    MPI_Comm part = MPI_COMM_NULL;
    int n = 0;
    if (side == 0) {
        while (n < MOST && MPI_Comm_dup(MPI_COMM_SELF, &made[n]) == MPI_SUCCESS && made[n] != MPI_COMM_NULL) ++n;
        CHECK(n < MOST, "it makes as many as one likes");
    }
    CHECK(MPI_Comm_split(inter, 0, 0, &part) != MPI_SUCCESS);
    CHECK(part == MPI_COMM_NULL);
    while (n) OK(MPI_Comm_free(&made[--n]));
    OK(MPI_Comm_split(inter, 0, 0, &part));
    swap(part, 26, 2);
    OK(MPI_Comm_free(&part));
}

/* A receive that nobody will serve is taken back, also when the other side has left. */
static void taken_back(void)
{
    MPI_Comm twin;
    MPI_Request requests[2];
    MPI_Status status;
    int word, flag = -1;
    OK(MPI_Comm_dup(inter, &twin));
    if (side == 0) OK(MPI_Irecv(&word, 1, MPI_INT, 0, 27, twin, &requests[0]));
    if (side == 0) OK(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 28, twin, &requests[1]));
    if (side == 1) OK(MPI_Comm_free(&twin));
    meet();
    for (int i = 0; side == 0 && i < 2; ++i) {
        /* So that it is told that they have left: nothing that it says gets there. */
        if (i == 0) CHECK(MPI_Ssend(&word, 1, MPI_INT, 0, 29, twin) != MPI_SUCCESS);
        OK(MPI_Cancel(&requests[i]));
        OK(MPI_Wait(&requests[i], &status));
        OK(MPI_Test_cancelled(&status, &flag));
        SAME(flag, 1);
    }
    if (side == 0) OK(MPI_Comm_free(&twin));
}

/* Two names of one job: the same processes. */
static void names(void)
{
    int second, result;
    char own[64], others[64];
    MPI_Comm again;
    snprintf(own, sizeof own, "%s-2", my_name);
    snprintf(others, sizeof others, "%s-2", their_name);
    OK(MPI_Conn_register(own, MPI_COMM_WORLD, &second));
    OK(MPI_Conn_intercomm_create(second, others, &again));
    OK(MPI_Comm_compare(inter, again, &result));
    SAME(result, MPI_CONGRUENT);
    swap(again, 24, 1);
    OK(MPI_Comm_free(&again));
    OK(MPI_Conn_remove(second));
    OK(MPI_Comm_compare(inter, MPI_COMM_WORLD, &result));
    SAME(result, MPI_UNEQUAL);
}

static const struct kit_section sections[] = {
    {"dup", twins},         {"ahead", ahead},     {"split", parts}, {"create", create},
    {"exhausted", exhausted}, {"taken-back", taken_back},
    {"handlers", handlers}, {"refused", refused}, {"ends", ends},   {"names", names},
#ifdef HAVE_3
    {"with-info", with_info},
#endif
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
