/* Several at once: pairs of ranks side by side, one rank with several partners, two threads a rank. Each of them sends windows
 * of messages until the time is over; then the first rank tells what all got together, and the slowest one's part of a fair share.
 *   several native - - SAMPLES SLICE_MS LARGEST KIND LEFT RIGHT      (one job: LEFT ranks send to RIGHT)
 *   several joined OWN_NAME OTHER_NAME SAMPLES SLICE_MS LARGEST KIND LEFT RIGHT      (the first name sends)
 * KIND is rate (64 messages of 8 bytes, each rank of the left with one of the right, or a single one with all), bandwidth (4 of
 * 64 KiB) or threads (as rate, by two threads a rank). */
#include "bench.h"
#include "several.h"
#include <pthread.h>

enum { MOST_STREAMS = 16, MOST_WINDOW = 64, LONG = 64 << 10, SLICES = 10 };

/* One stream of windows: to or from this rank, with this tag. */
struct stream {
    int partner, tag, window;
    size_t bytes;
    double rate;
};

static void run_stream(struct stream *s)
{
    char *words = memory(s->bytes * (size_t)s->window), answer = 0;
    MPI_Request requests[MOST_WINDOW];
    double start = now(), took = 0;
    long windows = 0;
    for (int last = 0; !last; ++windows) {
        if (!channel.side) {
            took = now() - start;
            words[0] = (char)(last = took >= slice * SLICES);
        }
        for (int w = 0; w < s->window; ++w) {
            char *at = words + s->bytes * (size_t)w;
            if (channel.side) MPI_Irecv(at, (int)s->bytes, MPI_BYTE, s->partner, s->tag, comm, &requests[w]);
            else MPI_Isend(at, (int)s->bytes, MPI_BYTE, s->partner, s->tag, comm, &requests[w]);
        }
        MPI_Waitall(s->window, requests, MPI_STATUSES_IGNORE);
        if (channel.side) {
            last = words[0];
            MPI_Send(&answer, 1, MPI_BYTE, s->partner, s->tag, comm);
        } else {
            MPI_Recv(&answer, 1, MPI_BYTE, s->partner, s->tag, comm, MPI_STATUS_IGNORE);
        }
    }
    /* The last window only says that it is the last. */
    s->rate = (double)(windows - 1) * s->window / took;
    munmap(words, s->bytes * (size_t)s->window);
}

static void *thread(void *stream)
{
    run_stream(stream);
    return NULL;
}

/* A single rank with several partners: a window for each, all under way at once, and the next one for whom has answered. The last
 * window only says that it is the last. */
static void run_star(struct stream *streams, int count)
{
    char words[MOST_STREAMS][MOST_WINDOW][8] = {{{0}}}, answers[MOST_STREAMS];
    MPI_Request windows[MOST_STREAMS][MOST_WINDOW], answered[MOST_STREAMS];
    long sent[MOST_STREAMS] = {0};
    double start = now();
    for (int s = 0, begun = 0, left = count; left; ++begun) {
        double took = 0;
        if (begun >= count) {
            MPI_Waitany(count, answered, &s, MPI_STATUS_IGNORE);
            MPI_Waitall(streams[s].window, windows[s], MPI_STATUSES_IGNORE);
            took = now() - start;
            if (words[s][0][0]) {
                --left;
                continue;
            }
            streams[s].rate = (double)(++sent[s] * streams[s].window) / took;
        } else {
            s = begun;
        }
        words[s][0][0] = took >= slice * SLICES;
        MPI_Irecv(&answers[s], 1, MPI_BYTE, streams[s].partner, TAG, comm, &answered[s]);
        for (int w = 0; w < streams[s].window; ++w)
            MPI_Isend(words[s][w], 8, MPI_BYTE, streams[s].partner, TAG, comm, &windows[s][w]);
    }
}

/* Returns when all ranks of both sides are here and none is in a collective call of its own side any more: in some MPIs those
 * who wait in one take the processor from the others for milliseconds. */
static void all_begin(int partners)
{
    char word = 0, words[MOST_STREAMS];
    MPI_Request requests[2 * MOST_STREAMS];
    for (int round = 0; round < 2; ++round) {
        for (int p = 0; p < partners; ++p) {
            MPI_Irecv(&words[p], 1, MPI_BYTE, first_partner + p, TAG, comm, &requests[2 * p]);
            MPI_Isend(&word, 1, MPI_BYTE, first_partner + p, TAG, comm, &requests[2 * p + 1]);
        }
        MPI_Waitall(2 * partners, requests, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    if (argc != 10) fail("arguments: native|joined OWN OTHER SAMPLES SLICE_MS LARGEST KIND LEFT RIGHT");
    settings(argv + 4);
    const char *kind = argv[7];
    int left = atoi(argv[8]), right = atoi(argv[9]), is_threads = !strcmp(kind, "threads"), is_long = !strcmp(kind, "bandwidth");
    several_connect(&argc, &argv, left, right, is_threads);

    struct stream streams[MOST_STREAMS];
    int count = is_threads ? 2 : channel.side || left == right ? 1 : right;
    for (int s = 0; s < count; ++s)
        streams[s] = (struct stream){.partner = first_partner + (left == right ? rank : channel.side ? 0 : s),
                                     .tag = TAG + (is_threads ? s : 0),
                                     .window = is_long ? 4 : 64,
                                     .bytes = is_long ? LONG : 8};
    double sums[MOST_SAMPLES], shares[MOST_SAMPLES], apart[MOST_SAMPLES + 1];
    for (int sample = -1; sample < samples; ++sample) {
        if (sample >= 0 && !rank) apart[sample] = cores_apart();
        all_begin(channel.side ? left : right);
        if (is_threads) {
            pthread_t other_thread;
            if (pthread_create(&other_thread, NULL, thread, &streams[1])) fail("no thread");
            run_stream(&streams[0]);
            pthread_join(other_thread, NULL);
        } else if (count > 1) {
            run_star(streams, count);
        } else {
            run_stream(&streams[0]);
        }
        double own[2] = {0, 1e30}, sum = 0, least = 0;
        for (int s = 0; s < count; ++s) {
            own[0] += streams[s].rate;
            if (streams[s].rate < own[1]) own[1] = streams[s].rate;
        }
        MPI_Allreduce(&own[0], &sum, 1, MPI_DOUBLE, MPI_SUM, side_comm);
        MPI_Allreduce(&own[1], &least, 1, MPI_DOUBLE, MPI_MIN, side_comm);
        if (sample >= 0) {
            sums[sample] = is_long ? sum * LONG * 1e-9 : sum * 1e-6;
            shares[sample] = least * (left == right ? left * count : count) / sum;
        }
    }
    if (!rank) apart[samples] = cores_apart();
    if (!channel.side && !rank) {
        char row[64];
        snprintf(row, sizeof row, "several: %s, %s and %s", kind, argv[8], argv[9]);
        report_apart(row, 0, is_long ? "GB/s" : "M/s", sums, apart, samples);
        snprintf(row, sizeof row, "several: %s, %s and %s, slowest", kind, argv[8], argv[9]);
        report_apart(row, 0, "of its share", shares, apart, samples);
        print_lines();
    }
    several_disconnect();
    return 0;
}
