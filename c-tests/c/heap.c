/* The heap of a process in which an MPI has brought its own allocator: blocks from before the library's constructor, the allocator
 * that serves, and threads that begin at the same moment. The MPI is linked with, and not called. */
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 1000, BLOCK = 1024, ROUNDS = 100, THREADS = 8, STEPS = 200, LARGE = 1 << 20 };

#ifdef EARLY
/* A library whose constructor runs before any other. */
char *early_grows, *early_ends, *early_large;

__attribute__((constructor)) static void start(void)
{
    early_grows = strdup("it was here before");
    early_ends = malloc(BLOCK);
    early_large = calloc(1, LARGE);
}
#else
extern char *early_grows, *early_ends, *early_large;

static pthread_barrier_t begin;

static void fail(const char *what)
{
    printf("FAILED: %s\n", what);
    fflush(stdout);
    abort();
}

static void *work(void *seed)
{
    unsigned random = (unsigned)(size_t)seed;
    unsigned char own = (unsigned char)random;
    pthread_barrier_wait(&begin);
    unsigned char *at[4] = {NULL};
    size_t sizes[4] = {0};
    for (int i = 0; i < STEPS; ++i) {
        int k = i % 4;
        for (size_t j = 0; j < sizes[k]; ++j)
            if (at[k][j] != own) fail("a block is another thread's too");
        sizes[k] = 1 + rand_r(&random) % 300;
        at[k] = realloc(at[k], sizes[k]);
        if (!at[k]) fail("there is no memory");
        memset(at[k], own, sizes[k]);
    }
    for (int k = 0; k < 4; ++k) free(at[k]);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1) MPI_Init(&argc, &argv);
    early_grows = realloc(early_grows, 5000);
    if (strcmp(early_grows, "it was here before")) fail("a block of before has lost its content");
    free(early_grows);
    free(early_ends);
    early_large = realloc(early_large, 2 * LARGE);
    if (!early_large || early_large[LARGE - 1]) fail("a large block of before has lost its content");
    free(early_large);

    size_t before = mallinfo2().uordblks;
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; ++i) blocks[i] = malloc(BLOCK);
    int is_ours = mallinfo2().uordblks >= before + BLOCKS * BLOCK;
    for (int i = 0; i < BLOCKS; ++i) free(blocks[i]);
    if (!is_ours) fail("the C library's allocator does not serve");

    for (size_t round = 0; round < ROUNDS; ++round) {
        pthread_t threads[THREADS];
        pthread_barrier_init(&begin, NULL, THREADS);
        for (size_t i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, work, (void *)(1 + round * THREADS + i));
        for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&begin);
    }
    puts("FINE");
    return 0;
}
#endif
