/* `port_edges server|client SECTION...`: the edges of what MPI promises of ports, between two jobs. */
#include "port_sides.h"

static void early(void)
{
    /* The client waits first. */
    if (serves) {
        open_and_tell();
        hear("waits");
        kit_sleep_ms(300); /* it is to be found waiting */
        accept_on(MPI_COMM_WORLD, 0);
    } else {
        hear_port();
        if (!me) tell("waits");
        connect_on(MPI_COMM_WORLD, 0);
    }
    exchange(1, 2);
    part();
    if (serves && !me) OK(MPI_Close_port(port));
}

static void late(void)
{
    /* The server waits first, and for long: no limit is its own. */
    if (serves) {
        open_and_tell();
        if (!me) tell("waits");
        accept_on(MPI_COMM_WORLD, 0);
    } else {
        hear_port();
        hear("waits");
        kit_sleep_ms(2500); /* what this is about */
        connect_on(MPI_COMM_WORLD, 0);
    }
    exchange(1, 2);
    part();
    if (serves && !me) OK(MPI_Close_port(port));
}

/* One port, one after another, over all kinds of communicators and from each root. Nobody but the root has a name. */
static void turns(void)
{
    MPI_Comm dup, backwards, half;
    open_and_tell();
    hear_port();
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &backwards));
    OK(MPI_Comm_split(MPI_COMM_WORLD, me, 0, &half));
    /* Whose root is rank 0 of the world: it has opened the port, or has heard of it. */
    MPI_Comm whole[] = {MPI_COMM_WORLD, dup, backwards};
    int root[] = {0, 0, 1};
    for (int k = 0; k < 3; ++k) {
        int other = (k + 1) % 3;
        if (serves) accept_on(whole[k], root[k]);
        else connect_on(whole[other], root[other]);
        exchange(k, 2);
        part();
    }
    MPI_Comm single[] = {half, MPI_COMM_SELF};
    for (int k = 0; k < 2 && !me; ++k) {
        if (serves) accept_on(single[k], 0);
        else connect_on(single[!k], 0);
        exchange(k, 1);
        OK(MPI_Comm_free(&inter)); /* as good as disconnect, with nothing under way */
    }
    /* Of unlike sizes. */
    if (serves) accept_on(MPI_COMM_WORLD, 0), exchange(5, 1), part();
    else if (!me) connect_on(MPI_COMM_SELF, 0), exchange(5, 2), part();
    if (serves && !me) OK(MPI_Close_port(port));
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free(&backwards));
    OK(MPI_Comm_free(&half));
}

/* What one has opened has its own name, and who connects to one is not taken by another. */
static void several(void)
{
    enum { PORTS = 3 };
    static char ports[PORTS][PORT_ROOM];
    MPI_Comm inters[PORTS];
    if (me) return;
    for (int k = 0; k < PORTS; ++k) {
        char name[16];
        snprintf(name, sizeof name, "port-%d", k);
        if (serves) {
            OK(MPI_Open_port(MPI_INFO_NULL, ports[k]));
            for (int i = 0; i < k; ++i) CHECK(strcmp(ports[i], ports[k]));
            port_tell(sign(name), ports[k]);
        } else
            port_hear(sign(name), ports[k]);
    }
    for (int i = 0; i < PORTS; ++i) {
        int k = (2 * i + 1) % PORTS; /* 1, 0, 2 */
        memcpy(port, ports[k], sizeof port);
        if (serves) accept_on(MPI_COMM_SELF, 0);
        else connect_on(MPI_COMM_SELF, 0);
        inters[k] = inter;
    }
    for (int k = 0; k < PORTS; ++k) {
        inter = inters[k];
        exchange(10 + k, 1);
        part();
    }
    for (int k = 0; k < PORTS && serves; ++k) OK(MPI_Close_port(ports[k]));
}

/* Two ranks of either job at two ports of the same process: the second is awaited first. */
static void crossed(void)
{
    static char ports[2][PORT_ROOM];
    for (int k = 0; k < 2; ++k) {
        char name[16];
        snprintf(name, sizeof name, "port-%d", k);
        if (serves && !me) {
            OK(MPI_Open_port(MPI_INFO_NULL, ports[k]));
            port_tell(sign(name), ports[k]);
        } else if (!serves && me == k)
            port_hear(sign(name), port);
    }
    if (serves && !me) {
        for (int k = 1; k >= 0; --k) {
            int who = -1;
            memcpy(port, ports[k], sizeof port);
            accept_on(MPI_COMM_SELF, 0);
            OK(MPI_Recv(&who, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE));
            SAME(who, k);
            part();
            OK(MPI_Close_port(ports[k]));
        }
    } else if (!serves) {
        connect_on(MPI_COMM_SELF, 0);
        OK(MPI_Send(&me, 1, MPI_INT, 0, 0, inter));
        part();
    }
}

/* Two ranks of one job. */
static void within(void)
{
    if (!me) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Send(port, PORT_ROOM, MPI_CHAR, 1, 0, MPI_COMM_WORLD));
        accept_on(MPI_COMM_SELF, 0);
    } else {
        OK(MPI_Recv(port, PORT_ROOM, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        connect_on(MPI_COMM_SELF, 0);
    }
    exchange(3, 1);
    part();
    if (!me) OK(MPI_Close_port(port));
}

/* A name as programs have it: with the line's end behind it, or blanks to the room's end. */
static void as_read(void)
{
    if (serves) {
        open_and_tell();
        for (int k = 0; k < 3; ++k) {
            accept_on(MPI_COMM_WORLD, 0);
            exchange(k, 2);
            part();
        }
        if (!me) OK(MPI_Close_port(port));
        return;
    }
    char line[PORT_ROOM] = "";
    if (!me) port_hear_line(sign("port"), line);
    CHECK(me || strchr(line, '\n'));
    for (int k = 0; k < 3; ++k) {
        memcpy(port, line, sizeof port);
        size_t length = strcspn(port, "\n");
        if (k == 1 && length + 3 < MPI_MAX_PORT_NAME) memcpy(port + length, "  \n", 4);
        if (k == 2) memset(port + length, ' ', MPI_MAX_PORT_NAME - 1 - length), port[MPI_MAX_PORT_NAME - 1] = 0;
        connect_on(MPI_COMM_WORLD, 0);
        exchange(k, 2);
        part();
    }
}

/* A long name that was cut is a short one, as long as what is left of the rest cannot be whole. */
static int is_cut_short(int whole, int left)
{
    enum { SHORT = 35, REST = 46 };
    return whole > SHORT && left >= SHORT && left < SHORT + REST;
}

/* What is left of a name, or has become of it, leads nowhere, and soon. Everybody is told. */
static void altered(void)
{
    open_and_tell();
    if (serves) {
        CHECK(me || !strncmp(port, "mpic:", 5), "a port is named %s", port);
        meet("end");
        /* It is as good as before. */
        accept_on(MPI_COMM_WORLD, 0);
    } else {
        char whole[PORT_ROOM] = "";
        hear_port();
        memcpy(whole, port, sizeof whole);
        int length = (int)strlen(whole);
        OK(MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD));
        for (int at = 5; at < length; at += length / 12 + 1) {
            if (!me) whole[at] ^= 1;
            double start = kit_ms();
            REFUSED_PORT(MPI_Comm_connect(whole, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
            CHECK(kit_ms() - start < SOON_MS, "%.0f ms for byte %d", kit_ms() - start, at);
            if (!me) whole[at] ^= 1;
        }
        for (int cut = 1; cut < length - 5; cut = 2 * cut) {
            if (is_cut_short(length, length - cut)) continue;
            char less[PORT_ROOM] = "";
            memcpy(less, whole, (size_t)(length - cut));
            REFUSED_PORT(MPI_Comm_connect(less, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        }
        REFUSED_PORT(MPI_Comm_connect("mpic:", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        char more[2 * PORT_ROOM];
        snprintf(more, sizeof more, "%s%s", whole, "x");
        if (!is_cut_short(length, length + 1)) REFUSED_PORT(MPI_Comm_connect(more, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        memset(more, 'x', sizeof more - 1);
        memcpy(more, "mpic:", 5);
        more[sizeof more - 1] = 0;
        REFUSED_PORT(MPI_Comm_connect(more, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        meet("end");
        connect_on(MPI_COMM_WORLD, 0);
    }
    exchange(2, 2);
    part();
    if (serves && !me) OK(MPI_Close_port(port));
}

static void closed(void)
{
    double start;
    if (serves) {
        open_and_tell();
        if (!me) OK(MPI_Close_port(port));
        meet("closed");
        REFUSED_PORT(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        if (!me) REFUSED_PORT(MPI_Close_port(port));
        return;
    }
    hear_port();
    meet("closed");
    start = kit_ms();
    REFUSED_PORT(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    CHECK(kit_ms() - start < SOON_MS, "%.0f ms", kit_ms() - start);
}

/* Closed while clients wait there: they are told. */
static void closed_on(void)
{
    if (serves) {
        open_and_tell();
        hear("waits-0"), hear("waits-1");
        kit_sleep_ms(300); /* they are to be found waiting */
        if (!me) OK(MPI_Close_port(port));
        return;
    }
    char name[16];
    snprintf(name, sizeof name, "waits-%d", me);
    port_hear(sign("port"), port);
    tell(name);
    double start = kit_ms();
    REFUSED_PORT(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    CHECK(kit_ms() - start < SOON_MS, "%.0f ms", kit_ms() - start);
}

/* The root has not opened what it would accept on: nobody has, or another rank. */
static void not_opened(void)
{
    if (!serves) return;
    open_and_tell();
    OK(MPI_Bcast(port, PORT_ROOM, MPI_CHAR, 0, MPI_COMM_WORLD));
    REFUSED_PORT(MPI_Comm_accept(port, MPI_INFO_NULL, 1, MPI_COMM_WORLD, &inter));
    REFUSED_PORT(MPI_Comm_accept("mpic:nobody", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    if (me) REFUSED_PORT(MPI_Close_port(port));
    /* No place for the result, on one process: all are told. */
    int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, me ? &inter : NULL);
    SAME(kit_class(code), MPI_ERR_ARG);
    REFUSED_PORT(MPI_Comm_connect("", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    together();
    if (!me) OK(MPI_Close_port(port));
}

/* Whoever waited too long is told by the library's own class, and by words. */
static void is_timeout(int code)
{
    CHECK(strstr(kit_error(code), "waited"), "it says %s", kit_error(code));
#ifndef KIT_NATIVE
    int class = -1;
    if (!MPI_Conn_error_class) return;
    OK(MPI_Conn_error_class(MPI_CONN_ERR_TIMEOUT, &class));
    SAME(kit_class(code), class);
#endif
}

/* Too long for one client's patience is not too long for the next. */
static void given_up(void)
{
    MPI_Info brief = info_of("timeout", "1");
    if (serves) {
        open_and_tell();
        meet("gave-up");
        accept_on(MPI_COMM_WORLD, 0);
        exchange(4, 2);
        part();
        /* Nobody comes. */
        double start = kit_ms();
        int code = MPI_Comm_accept(port, brief, 0, MPI_COMM_WORLD, &inter);
        double took = kit_ms() - start;
        CHECK(code != MPI_SUCCESS);
        is_timeout(code);
        CHECK(took > 500 && took < SOON_MS, "%.0f ms", took);
        meet("again");
        accept_on(MPI_COMM_WORLD, 0);
    } else {
        hear_port();
        for (int i = 0; i < 2; ++i) {
            double start = kit_ms();
            REFUSED_PORT(MPI_Comm_connect(port, brief, 0, MPI_COMM_WORLD, &inter));
            double took = kit_ms() - start;
            CHECK(took > 500 && took < SOON_MS, "%.0f ms", took);
        }
        meet("gave-up");
        connect_on(MPI_COMM_WORLD, 0);
        exchange(4, 2);
        part();
        meet("again");
        connect_on(MPI_COMM_WORLD, 0);
    }
    exchange(5, 2);
    part();
    if (serves && !me) OK(MPI_Close_port(port));
    OK(MPI_Info_free(&brief));
}

/* Run with MPI_CONNECT_TIMEOUT=1. */
static void impatient(void)
{
    double start, took;
    if (serves) {
        open_and_tell();
        meet("gave-up");
        start = kit_ms();
        int code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        took = kit_ms() - start;
        CHECK(code != MPI_SUCCESS);
        is_timeout(code);
        CHECK(took > 500 && took < SOON_MS, "%.0f ms", took);
        meet("end");
        if (!me) OK(MPI_Close_port(port));
        return;
    }
    hear_port();
    start = kit_ms();
    REFUSED_PORT(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    took = kit_ms() - start;
    CHECK(took > 500 && took < SOON_MS, "%.0f ms", took);
    meet("gave-up");
    meet("end");
}

static const struct kit_section sections[] = {
    {"early", early},       {"late", late},         {"turns", turns},         {"several", several},
    {"crossed", crossed},   {"within", within},     {"as-read", as_read},     {"altered", altered},
    {"closed", closed},     {"closed-on", closed_on}, {"not-opened", not_opened}, {"given-up", given_up},
    {"impatient", impatient},
};

int main(int argc, char **argv)
{
    return port_sides(argc, argv, sections, sizeof sections / sizeof sections[0]);
}
