/* MPI_Conn_notify, in jobs that come, go and die:
 *
 *     notices watch          both ranks are told of the others
 *     notices come NAME      registers the name, and gives it back at the file leave-NAME
 */
#include "kit.h"
#include <pthread.h>

enum { ALL = MPI_CONN_JOINED | MPI_CONN_LEFT | MPI_CONN_DIED, SEVERAL = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What a registration was told, in order, as words. */
struct told {
    char text[4096];
    int inside, notice, once;
};

static struct told all, ice, dead, once, none;
static int in_a_call;

static void tell(int event, const char *name, void *state)
{
    struct told *to = state;
    pthread_mutex_lock(&lock);
    SAME(in_a_call, 0);
    in_a_call = 1;
    snprintf(to->text + strlen(to->text), sizeof to->text - strlen(to->text), "%s %s\n",
             event == MPI_CONN_JOINED ? "joined" : event == MPI_CONN_LEFT ? "left" : event == MPI_CONN_DIED ? "died" : "?", name);
    int is_last = to->once;
    pthread_mutex_unlock(&lock);
    if (is_last) OK(MPI_Conn_notify_cancel(to->notice));
    pthread_mutex_lock(&lock);
    in_a_call = 0;
    pthread_mutex_unlock(&lock);
}

static int has(struct told *of, const char *words)
{
    pthread_mutex_lock(&lock);
    int found = strstr(of->text, words) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

static void await(struct told *of, const char *words)
{
    while (!has(of, words)) kit_sleep_ms(2);
}

static void watch(void)
{
    int handle, several[SEVERAL], number;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    REFUSED(MPI_Conn_notify("x", 0, tell, &all, &number), MPI_ERR_ARG);
    REFUSED(MPI_Conn_notify("x", ALL + 8, tell, &all, &number), MPI_ERR_ARG);
    REFUSED(MPI_Conn_notify("x", ALL, NULL, &all, &number), MPI_ERR_ARG);
    REFUSED(MPI_Conn_notify("x", ALL, tell, &all, NULL), MPI_ERR_ARG);
    REFUSED(MPI_Conn_notify("\xff", ALL, tell, &all, &number), MPI_ERR_ARG);
    REFUSED(MPI_Conn_notify_cancel(999), MPI_ERR_ARG);

    OK(MPI_Conn_register("sea", MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_notify(NULL, ALL, tell, &all, &all.notice));
    OK(MPI_Conn_notify("ice-*", ALL, tell, &ice, &ice.notice));
    OK(MPI_Conn_notify("", MPI_CONN_DIED, tell, &dead, &dead.notice));
    OK(MPI_Conn_notify("ice-", ALL, tell, &none, &none.notice));
    OK(MPI_Conn_notify_cancel(none.notice));
    REFUSED(MPI_Conn_notify_cancel(none.notice), MPI_ERR_ARG);
    pthread_mutex_lock(&lock);
    once.once = 1;
    pthread_mutex_unlock(&lock);
    OK(MPI_Conn_notify("ice-a", ALL, tell, &once, &once.notice));
    /* What is there already. */
    await(&all, "joined sea\n");
    kit_write(kit_path("watches-%d", kit_rank), "yes\n");
    await(&ice, "joined ice-a\n");
    await(&ice, "joined ice-b\n");
    await(&once, "joined ice-a\n");
    kit_write(kit_path("has-seen-%d", kit_rank), "yes\n");
    await(&ice, "left ice-a\n");
    await(&ice, "died ice-b\n");
    await(&all, "died ice-b\n");
    await(&dead, "died ice-b\n");
    CHECK(!has(&ice, "sea") && !has(&ice, "wind"));
    await(&all, "joined wind\n");
    CHECK(!has(&dead, "joined") && !has(&dead, "left") && !has(&none, "ice"), "%s, %s", dead.text, none.text);
    CHECK(!has(&once, "left"));
    /* Room for so many, of which four are taken, and one has ended by itself. */
    int taken = 0;
    while (taken < SEVERAL) {
        int code = MPI_Conn_notify("nothing", ALL, tell, &none, &several[taken]);
        if (code != MPI_SUCCESS) {
            SAME(kit_class(code), MPI_ERR_OTHER);
            break;
        }
        ++taken;
    }
    SAME(taken, SEVERAL - 3);
    for (int k = 0; k < taken; ++k) OK(MPI_Conn_notify_cancel(several[k]));
    OK(MPI_Conn_notify_cancel(all.notice));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Conn_remove(handle));
    CHECK(!has(&all, "left sea"), "%s", all.text);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void come(const char *name)
{
    int handle;
    char leave[300];
    OK(MPI_Conn_register(name, MPI_COMM_WORLD, &handle));
    snprintf(leave, sizeof leave, "leave-%s", name);
    kit_await(kit_path("%s", leave));
    OK(MPI_Conn_remove(handle));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    kit_label = argc > 2 ? argv[2] : "watch";
    if (argc > 2) come(argv[2]);
    else watch();
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
