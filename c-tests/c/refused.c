/* `refused NAME OTHER SIDE LIST`: calls every function of the list, by its name, with one handle of ours, and nulls for
 * all else. Each line: a function, and a letter for each argument; no function of the list may get so far as to look at
 * the others. */
#define _GNU_SOURCE
#include "kit.h"
#include <dlfcn.h>

static MPI_Comm inter;
static MPI_Request request;
static MPI_Group group;

static long argument(char letter, int *class)
{
    switch (letter) {
    case 'C': *class = MPI_ERR_COMM; return (long)(intptr_t)inter;
    case 'c': *class = MPI_ERR_COMM; return (long)&inter;
    case 'R': *class = MPI_ERR_REQUEST; return (long)(intptr_t)request;
    case 'r': *class = MPI_ERR_REQUEST; return (long)&request;
    case 'G': *class = MPI_ERR_GROUP; return (long)(intptr_t)group;
    case 'g': *class = MPI_ERR_GROUP; return (long)&group;
    default: return letter - '0';
    }
}

/* False: the MPI has no such function. Arguments beyond a function's own do it no harm. */
static int is_refused(const char *name, const char *letters)
{
    long a[12] = {0};
    int class = -1;
    int (*call)(long, long, long, long, long, long, long, long, long, long, long, long);
    *(void **)&call = dlsym(RTLD_DEFAULT, name);
    if (!call) return 0;
    for (size_t i = 0; letters[i] && i < 12; ++i) a[i] = argument(letters[i], &class);
    int code = call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    ++kit_checks;
    if (kit_class(code) != class || !strstr(kit_error(code), name + (name[0] == 'P')))
        kit_fail(__FILE__, __LINE__, "%s %s: class %d, not %d: %s", name, letters, kit_class(code), class,
                 kit_error(code));
    return 1;
}

/* Questions to a request that only some MPIs have: answered, not refused. */
static int is_complete(void)
{
    int (*complete)(MPI_Request);
    *(void **)&complete = dlsym(RTLD_DEFAULT, "MPIX_Request_is_complete");
    return complete ? complete(request) : -1;
}

static void has_no_name(void)
{
    char *(*name)(MPI_Request);
    *(void **)&name = dlsym(RTLD_DEFAULT, "MPIL_Request_get_name");
    if (name) CHECK(name(request) == NULL);
}

int main(int argc, char **argv)
{
    int handle, me, in = -1, found = 0;
    char function[100], letters[20];
    MPI_Init(&argc, &argv);
    if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
    int side = atoi(argv[3]);
    kit_label = argv[1];
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    kit_rank = me;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* where groups report */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Comm_remote_group(inter, &group));
    OK(MPI_Irecv(&in, 1, MPI_INT, me, 1, inter, &request));
    MPI_Comm inter_before = inter;
    MPI_Request request_before = request;
    has_no_name();
    CHECK(is_complete() != 1, "complete before anything was sent");
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, me, 2, NULL, 0, MPI_INT, me, 2, inter, MPI_STATUS_IGNORE)); /* both have looked */

    FILE *list = fopen(argv[4], "r");
    CHECK(list);
    while (list && fscanf(list, "%99s %19s", function, letters) == 2) found += is_refused(function, letters);
    if (list) fclose(list);
    if (me == 0) printf("FOUND %d\n", found);

    /* What was refused has done nothing. */
    CHECK(inter == inter_before && request == request_before);
    OK(MPI_Send(&side, 1, MPI_INT, me, 1, inter));
    while (is_complete() == 0) continue;
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(in, !side);
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
