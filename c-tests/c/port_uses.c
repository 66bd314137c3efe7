/* `port_uses server|client SECTION...`: what is done around ports, and with the inter-communicators that come of them:
 * names, infos, collectives, parting, sockets. */
#include "port_sides.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* ---- names ---- */

/* A service of this run alone. */
static char *service(const char *what)
{
    static char text[512];
    snprintf(text, sizeof text, "%s of %s", what, getenv("MPI_CONNECT_TEST_DIR"));
    return text;
}

/* What comes behind a name that was looked up is no part of it: nothing but its end is there. */
static void looked_up(const char *what, const char *wanted)
{
    char found[PORT_ROOM + 8];
    memset(found, 'x', sizeof found);
    OK(MPI_Lookup_name(service(what), MPI_INFO_NULL, found));
    CHECK(memchr(found, 0, MPI_MAX_PORT_NAME) != NULL);
#ifdef LAM_MPI
    /* What is longer than its room has a stand-in. The whole is known here by the part that there was room for. */
    int stands_in = strlen(wanted) >= MPI_MAX_PORT_NAME - 1 && !strncmp(found, "mpic:#", 6);
#else
    int stands_in = 0;
#endif
    CHECK(stands_in || !strcmp(found, wanted), "%.80s is not %s", found, wanted);
    for (size_t k = PORT_ROOM; k < sizeof found; ++k) SAME(found[k], 'x');
}

static void names(void)
{
    if (me) return;
    char found[PORT_ROOM];
    double start = kit_ms();
    REFUSED(MPI_Lookup_name(service("nothing"), MPI_INFO_NULL, found), MPI_ERR_NAME);
    CHECK(kit_ms() - start < SOON_MS, "%.0f ms", kit_ms() - start);
    REFUSED(MPI_Unpublish_name(service("nothing"), MPI_INFO_NULL, "mpic:nothing"), MPI_ERR_SERVICE);
    if (serves) {
        MPI_Info info = info_of("grid", "T63");
        open_and_tell();
        OK(MPI_Publish_name(service("heat"), MPI_INFO_NULL, port));
        OK(MPI_Publish_name(service("another"), info, port));
        OK(MPI_Info_free(&info));
        REFUSED(MPI_Publish_name(service("heat"), MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        looked_up("heat", port);
        tell("published");
        hear("looked-up");
        OK(MPI_Unpublish_name(service("heat"), MPI_INFO_NULL, port));
        OK(MPI_Unpublish_name(service("another"), MPI_INFO_NULL, port));
        REFUSED(MPI_Unpublish_name(service("heat"), MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        tell("unpublished");
        hear("taken");
        REFUSED(MPI_Publish_name(service("heat"), MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        tell("refused");
        hear("end");
        OK(MPI_Publish_name(service("heat"), MPI_INFO_NULL, port));
        OK(MPI_Unpublish_name(service("heat"), MPI_INFO_NULL, port));
        OK(MPI_Close_port(port));
        return;
    }
    hear("published");
    hear_port();
    looked_up("heat", port);
    looked_up("another", port);
    REFUSED(MPI_Publish_name(service("heat"), MPI_INFO_NULL, port), MPI_ERR_SERVICE);
    tell("looked-up");
    hear("unpublished");
    REFUSED(MPI_Lookup_name(service("heat"), MPI_INFO_NULL, found), MPI_ERR_NAME);
    /* The name is free for anybody, with any port. */
    OK(MPI_Publish_name(service("heat"), MPI_INFO_NULL, port));
    tell("taken");
    hear("refused");
    looked_up("heat", port);
    OK(MPI_Unpublish_name(service("heat"), MPI_INFO_NULL, port));
    tell("end");
}

/* ---- infos ---- */

/* A socket that listens on a port of the loopback, 0: any that is free, or -1. */
static int listens(int *number)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*number)};
    socklen_t length = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 1)) {
        close(s);
        return -1;
    }
    getsockname(s, (struct sockaddr *)&at, &length);
    *number = ntohs(at.sin_port);
    return s;
}

static void infos(void)
{
    MPI_Info strange = info_of("mpic_no_such_key", "whatever");
    OK(MPI_Info_set(strange, "timeout", "30"));
    if (serves && !me) {
        int number = 0;
        char text[16];
        close(listens(&number));
        snprintf(text, sizeof text, "%d", number);
        MPI_Info info = info_of("ip_port", text);
        OK(MPI_Info_set(info, "ip_address", "127.0.0.1"));
        OK(MPI_Info_set(info, "mpic_no_such_key", "whatever"));
        OK(MPI_Open_port(info, port));
        CHECK(listens(&number) < 0, "nobody listens at %d, as asked", number);
        OK(MPI_Info_free(&info));
        port_tell(sign("port"), port);
    }
    hear_port();
    if (serves) OK(MPI_Comm_accept(me ? NULL : port, strange, 0, MPI_COMM_WORLD, &inter));
    else OK(MPI_Comm_connect(me ? NULL : port, strange, 0, MPI_COMM_WORLD, &inter));
    exchange(6, 2);
    part();
    if (serves && !me) OK(MPI_Close_port(port));
    OK(MPI_Info_free(&strange));
}

/* ---- what is done with the inter-communicator ---- */

static void meet_at_port(void)
{
    open_and_tell();
    hear_port();
    if (serves) accept_on(MPI_COMM_WORLD, 0);
    else connect_on(MPI_COMM_WORLD, 0);
    if (serves && !me) OK(MPI_Close_port(port)); /* what was made stays */
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
}

/* From each rank of each side, of several sizes, contiguous and not. */
static void broadcasts(void)
{
    enum { MOST = 1 << 20 };
    static const int counts[] = {0, 1, 1000, MOST};
    int *words = kit_alloc(2 * MOST * sizeof(int)), whole = 0;
    MPI_Datatype second;
    meet_at_port();
    for (int turn = 0; turn < 2 * 2 * 4; ++turn) {
        int from_server = turn % 2, root = turn / 2 % 2, n = counts[turn / 4], sends = serves == from_server;
        size_t bytes = (size_t)n * sizeof(int);
        memset(words, 0, bytes);
        if (sends && me == root) kit_fill(words, bytes, (uint64_t)turn);
        OK(MPI_Bcast(words, n, MPI_INT, !sends ? root : me == root ? MPI_ROOT : MPI_PROC_NULL, inter));
        if (!sends) HOLDS(words, bytes, (uint64_t)turn);
    }
    /* Every second word here, a row there. */
    OK(MPI_Type_vector(1000, 1, 2, MPI_INT, &second));
    OK(MPI_Type_commit(&second));
    for (int k = 0; k < 2000; ++k) words[k] = serves ? k : -1;
    OK(MPI_Bcast(words, serves ? 1 : 1000, serves ? second : MPI_INT, !serves ? 1 : me == 1 ? MPI_ROOT : MPI_PROC_NULL, inter));
    for (int k = 0; k < 1000; ++k) whole += words[k] == (serves ? k : 2 * k);
    SAME(whole, 1000);
    OK(MPI_Type_free(&second));
    kit_fill(words, 400, serves ? 77 : 0);
#if MPI_VERSION >= 4
    OK(MPI_Bcast_c(words, 100, MPI_INT, !serves ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL, inter));
#else
    OK(MPI_Bcast(words, 100, MPI_INT, !serves ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL, inter));
#endif
    HOLDS(words, 400, 77);
    free(words);
    part();
}

/* Nobody leaves before all of the other side have come. */
static void barrier(void)
{
    meet_at_port();
    for (int turn = 0; turn < 4; ++turn) {
        char late[16];
        snprintf(late, sizeof late, "late-%d", turn);
        if (me == turn / 2 && serves == turn % 2) {
            kit_sleep_ms(100); /* the others are to be found waiting */
            tell(late);
        }
        OK(MPI_Barrier(inter));
        if (serves != turn % 2) CHECK(kit_is_there(sign(late)), "turn %d: back before all had come", turn);
    }
    part();
}

/* Refused by all, rather than answered wrongly within one job. */
static void collectives(void)
{
    int one = 1, all[4];
    meet_at_port();
    CHECK(MPI_Allreduce(&one, all, 1, MPI_INT, MPI_SUM, inter) != MPI_SUCCESS);
    CHECK(MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, inter) != MPI_SUCCESS);
    CHECK(MPI_Alltoall(&one, 1, MPI_INT, all, 1, MPI_INT, inter) != MPI_SUCCESS);
    exchange(8, 2);
    part();
}

/* To part is to wait for what is under way; the memory may be used again after it. */
static void pending(void)
{
    enum { LARGE = 4 << 20 };
    char *memory = kit_alloc(LARGE);
    MPI_Request request;
    meet_at_port();
    if (serves) {
        kit_fill(memory, LARGE, 21);
        OK(MPI_Isend(memory, LARGE, MPI_BYTE, me, 1, inter, &request));
        OK(MPI_Request_free(&request));
        part();
        memset(memory, 0, LARGE);
    } else {
        kit_sleep_ms(200); /* the other side is to be found parting */
        OK(MPI_Recv(memory, LARGE, MPI_BYTE, me, 1, inter, MPI_STATUS_IGNORE));
        HOLDS(memory, LARGE, 21);
        part();
    }
    free(memory);
}

/* What is made of such an inter-communicator outlives it. */
static void children(void)
{
    MPI_Comm dup, half;
    meet_at_port();
    OK(MPI_Comm_dup(inter, &dup));
    OK(MPI_Comm_split(inter, me, 0, &half));
    part();
    inter = dup;
    exchange(11, 2);
    part();
    inter = half;
    exchange(12, 1);
    part();
}

static int deleted;

static int gone(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    ++deleted;
    return MPI_SUCCESS;
}

/* Each inter-communicator begins afresh, whatever the program has left on those that it has freed; which is different on each
 * rank. The broadcast shows that all ranks of a side mean the same one. */
static void afresh(void)
{
    enum { ROUNDS = 24 };
    int keyval, set = 0;
    MPI_Comm over, held = MPI_COMM_NULL;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, gone, &keyval, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &over));
    open_and_tell();
    hear_port();
    for (int round = 0; round < ROUNDS; ++round) {
        char name[MPI_MAX_OBJECT_NAME] = "";
        int *value, there = 1, length, word = round * 10 + serves;
        if (serves) accept_on(over, 0);
        else connect_on(over, 0);
        OK(MPI_Comm_get_attr(inter, keyval, &value, &there));
        SAME(there, 0);
        OK(MPI_Comm_get_name(inter, name, &length));
        CHECK(strcmp(name, "mine"), "the name of an earlier one");
        REFUSED(MPI_Send(&word, 1, MPI_INT, 4711, 1, inter), MPI_ERR_RANK); /* it has the handler of `over` */
        exchange(round, 2);
        OK(MPI_Bcast(&word, 1, MPI_INT, !serves ? 1 : me ? MPI_ROOT : MPI_PROC_NULL, inter));
        SAME(word, round * 10 + 1);
        switch ((round + (int)me * (round / 8)) % 4) {
        case 1:
            OK(MPI_Comm_set_attr(inter, keyval, &set));
            ++set;
            break;
        case 2: OK(MPI_Comm_set_name(inter, "mine")); break;
        case 3: OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_ARE_FATAL));
        }
        /* Some stay for a round. */
        MPI_Comm last = held;
        held = round % 5 == 4 ? inter : MPI_COMM_NULL;
        if (held == MPI_COMM_NULL) part();
        if (last != MPI_COMM_NULL) OK(MPI_Comm_disconnect(&last));
        if (held == MPI_COMM_NULL) SAME(deleted, set);
        if (round == 2 * ROUNDS / 3) { /* what is there of the communicator goes with it */
            OK(MPI_Comm_free(&over));
            OK(MPI_Comm_dup(MPI_COMM_WORLD, &over));
        }
    }
    if (held != MPI_COMM_NULL) OK(MPI_Comm_disconnect(&held));
    SAME(deleted, set);
    OK(MPI_Comm_free(&over));
    if (serves && !me) OK(MPI_Close_port(port));
    OK(MPI_Comm_free_keyval(&keyval));
}

/* ---- sockets ---- */

/* A connected socket between rank 0 of both jobs. */
static int plug(void)
{
    char text[16] = "";
    if (serves) {
        int number = 0, listener = listens(&number);
        snprintf(text, sizeof text, "%d\n", number);
        kit_write(sign("socket"), text);
        int fd = accept(listener, NULL, NULL);
        close(listener);
        return fd;
    }
    hear("socket");
    FILE *f = fopen(sign("socket"), "r");
    CHECK(f && fgets(text, sizeof text, f));
    fclose(f);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(text))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    SAME(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* The socket is the program's own, before and after. */
static void speaks(int fd, char word)
{
    char got = 0;
    SAME(write(fd, &word, 1), 1);
    SAME(read(fd, &got, 1), 1);
    SAME(got, word);
}

static void join(void)
{
    if (me) return;
    int fd = plug();
    for (int turn = 0; turn < 3; ++turn) {
        int flags = fcntl(fd, F_GETFL);
        speaks(fd, (char)(turn + 1));
        OK(MPI_Comm_join(fd, &inter));
        SAME(fcntl(fd, F_GETFL), flags);
        speaks(fd, (char)(turn + 10));
        if (turn == 2) close(fd);
        exchange(turn, 1);
        part();
    }
}

/* What leads to nobody. */
static void join_bad(void)
{
    int ends[2], fd;
    SAME(pipe(ends), 0);
    CHECK(MPI_Comm_join(ends[0], &inter) != MPI_SUCCESS);
    CHECK(MPI_Comm_join(-1, &inter) != MPI_SUCCESS);
    fd = open("/dev/null", O_RDWR);
    CHECK(MPI_Comm_join(fd, &inter) != MPI_SUCCESS);
    close(fd), close(ends[0]), close(ends[1]);
    /* The other end is closed. */
    SAME(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    double start = kit_ms();
    CHECK(MPI_Comm_join(ends[0], &inter) != MPI_SUCCESS);
    CHECK(kit_ms() - start < SOON_MS, "%.0f ms", kit_ms() - start);
    close(ends[0]);
    /* Not connected. */
    fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(MPI_Comm_join(fd, &inter) != MPI_SUCCESS);
    close(fd);
}

static const struct kit_section sections[] = {
    {"names", names},       {"infos", infos},       {"broadcasts", broadcasts}, {"barrier", barrier},
    {"collectives", collectives}, {"pending", pending}, {"children", children}, {"join", join},
    {"join-bad", join_bad}, {"afresh", afresh},
};

int main(int argc, char **argv)
{
    return port_sides(argc, argv, sections, sizeof sections / sizeof sections[0]);
}
