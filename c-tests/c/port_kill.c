/* `port_kill server|client CASE`, one rank each: one side is killed by the harness once it has told so by a file, and the
 * other must be told by an error, soon, and must come to its end. In some cases a second client comes, `port_kill next CASE`. */
#include "ports.h"

enum { SOON_MS = 10000 };

static int serves, next;
static char port[PORT_ROOM];
static MPI_Comm inter = MPI_COMM_NULL;

static void tell(const char *what) { kit_write(kit_path("%s", what), "told\n"); }
static void hear(const char *what) { kit_await(kit_path("%s", what)); }

static char *service(void)
{
    static char text[512];
    snprintf(text, sizeof text, "service of %s", getenv("MPI_CONNECT_TEST_DIR"));
    return text;
}

/* To be killed here. */
__attribute__((noreturn)) static void lie_down(void)
{
    tell("kill-me");
    for (;;) pause();
}

/* When the harness has killed: it writes the moment. */
static double killed_at(void)
{
    double at = 0;
    hear("killed");
    FILE *f = fopen(kit_path("killed"), "r");
    if (!f || fscanf(f, "%lf", &at) != 1) CHECK(0, "no moment");
    if (f) fclose(f);
    return at * 1e3;
}

/* What the clock of the harness says. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* A call that waits for the one who was killed meanwhile. */
static void told_of(const char *what, int code)
{
    double ms = now_ms() - killed_at();
    CHECK(code != MPI_SUCCESS, "%s succeeded", what);
    CHECK(ms < SOON_MS, "%s: told after %.0f ms", what, ms);
    printf("TOLD %s %.0f\n", what, ms);
    if (code != MPI_SUCCESS) printf("SAID %s\n", kit_error(code));
    fflush(stdout);
}

static void open_port(void)
{
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    port_tell(kit_path("port"), port);
}

static void greet(void)
{
    int out = 5, in = -1;
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
    SAME(in, 5);
}

static void accept_one(void)
{
    OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    greet();
}

static void connect_one(void)
{
    port_hear(kit_path("port"), port);
    OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    greet();
}

/* ---- the cases ---- */

/* The server is dead before anybody connects. */
static void server_before(void)
{
    if (serves) {
        open_port();
        lie_down();
    }
    killed_at();
    port_hear(kit_path("port"), port);
    double start = kit_ms();
    REFUSED_PORT(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    CHECK(kit_ms() - start < SOON_MS, "%.0f ms", kit_ms() - start);
}

/* The client waits in connect. */
static void server_meanwhile(void)
{
    if (serves) {
        open_port();
        hear("waits");
        kit_sleep_ms(200); /* it is to be found waiting */
        lie_down();
    }
    port_hear(kit_path("port"), port);
    tell("waits");
    int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    told_of("connect", code);
#ifndef LAM_MPI
    SAME(kit_class(code), MPI_ERR_PORT);
#endif
}

/* The client after the one that is killed. */
static void come_next(void)
{
    killed_at();
    connect_one();
    OK(MPI_Comm_disconnect(&inter));
}

/* The client waits in connect, and dies there, before the server has come to accept. */
static void client_meanwhile(void)
{
    if (serves) {
        open_port();
        killed_at();
        accept_one(); /* the next one, not the dead one */
        OK(MPI_Comm_disconnect(&inter));
        OK(MPI_Close_port(port));
    } else if (next) {
        come_next();
    } else {
        port_hear(kit_path("port"), port);
        tell("kill-me");
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        CHECK(0, "back from connect");
    }
}

/* The server waits in accept all the time, while one client after another comes and one dies. */
static void client_while_accepting(void)
{
    if (serves) {
        open_port();
        for (int k = 0; k < 2; ++k) {
            int code;
            accept_one();
            if (!k) {
                int word;
                tell("met");
                code = MPI_Recv(&word, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE);
                told_of("receive", code);
            }
            MPI_Comm_disconnect(&inter);
        }
        OK(MPI_Close_port(port));
    } else if (next) {
        come_next();
    } else {
        connect_one();
        hear("met");
        lie_down();
    }
}

/* The other is dead while this one waits for a message, and then parts from it. */
static void after(int survives)
{
    int word;
    if (serves) open_port(), accept_one();
    else connect_one();
    if (!survives) {
        hear("waits");
        kit_sleep_ms(200); /* it is to be found waiting */
        lie_down();
    }
    tell("waits");
    told_of("receive", MPI_Recv(&word, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE));
    double start = kit_ms();
    MPI_Comm_disconnect(&inter); /* well or not, but it ends */
    CHECK(kit_ms() - start < SOON_MS, "to part took %.0f ms", kit_ms() - start);
    if (serves) OK(MPI_Close_port(port));
}

static void server_after(void) { after(!serves); }
static void client_after(void) { after(serves); }

/* The other is dead while this one waits in disconnect, with a message under way that nobody takes. */
static void server_parting(void)
{
    static char large[1 << 20];
    MPI_Request request;
    if (serves) {
        open_port();
        accept_one();
        hear("waits");
        kit_sleep_ms(200); /* it is to be found waiting */
        lie_down();
    }
    connect_one();
    OK(MPI_Isend(large, sizeof large, MPI_BYTE, 0, 4, inter, &request));
    tell("waits");
    int code = MPI_Comm_disconnect(&inter);
    double ms = now_ms() - killed_at();
    CHECK(ms < SOON_MS, "to part took %.0f ms", ms);
    printf("TOLD disconnect %.0f\nSAID %s\n", ms, code == MPI_SUCCESS ? "nothing" : kit_error(code));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Neither a word nor a farewell: the client goes to its end while connected to a dead server. */
static void server_dies_client_finalizes(void)
{
    if (serves) {
        open_port();
        accept_one();
        lie_down();
    }
    connect_one();
    killed_at();
}

/* What a killed job has published is gone at once, and free for the next. */
static void published(void)
{
    if (serves) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Publish_name(service(), MPI_INFO_NULL, port));
        hear("looked-up");
        lie_down();
    }
    while (MPI_Lookup_name(service(), MPI_INFO_NULL, port) != MPI_SUCCESS) kit_sleep_ms(10);
    tell("looked-up");
    killed_at();
    REFUSED(MPI_Lookup_name(service(), MPI_INFO_NULL, port), MPI_ERR_NAME);
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Publish_name(service(), MPI_INFO_NULL, port));
    OK(MPI_Unpublish_name(service(), MPI_INFO_NULL, port));
    OK(MPI_Close_port(port));
}

/* Not killed: it ends well, and forgets to take back what it has published and opened. The client comes after it. */
static void left_behind(void)
{
    if (serves) {
        open_port();
        OK(MPI_Publish_name(service(), MPI_INFO_NULL, port));
        return;
    }
    double start = kit_ms();
    char found[PORT_ROOM];
    REFUSED(MPI_Lookup_name(service(), MPI_INFO_NULL, found), MPI_ERR_NAME);
    port_hear(kit_path("port"), port);
    REFUSED_PORT(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    CHECK(kit_ms() - start < SOON_MS, "%.0f ms", kit_ms() - start);
}

static const struct kit_section cases[] = {
    {"server-before", server_before},
    {"server-meanwhile", server_meanwhile},
    {"client-meanwhile", client_meanwhile},
    {"client-while-accepting", client_while_accepting},
    {"server-after", server_after},
    {"client-after", client_after},
    {"server-parting", server_parting},
    {"server-dies-client-finalizes", server_dies_client_finalizes},
    {"published", published},
    {"left-behind", left_behind},
};

int main(int argc, char **argv)
{
    ports_begin(&argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "port_kill server|client|next CASE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kit_label = argv[1];
    serves = !strcmp(argv[1], "server");
    next = !strcmp(argv[1], "next");
    kit_begin(cases, sizeof cases / sizeof cases[0], argv[2])->run();
    int result = kit_end();
    MPI_Finalize();
    printf("END\n"); /* Finalize came back */
    return result;
}
