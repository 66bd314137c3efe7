/* Traffic without end, whatever happens to what carries it: `traffic NAME OTHER SIDE SEED [PLANT]`. Each rank of one job sends to all
 * of the other, in both directions at once, small and large messages with several tags; they are received by tag, by any tag,
 * from any source and after a probe. What a message holds follows from where it comes from, where it goes, its tag and its
 * number, so that one that is damaged, doubled, left out or out of order is known as such.
 *
 * After some rounds the jobs part and join again, by their names. When a call is told an error, it is written down, and they
 * join again too. What a rank has counted is in the file count-SIDE-RANK, in which the harness reads meanwhile.
 *
 * PLANT is what rank 0 does wrong once, to see whether it is noticed: lost, doubled, swapped or damaged. */
#include "kit.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { SMALL = 8, MEDIUM = 4, LARGE = 1, WILD = 4, EACH = SMALL + MEDIUM + LARGE + WILD };
enum { MOST = 512 << 10, PEERS = 8, STREAMS = 7, GREETING = 5, WILD_TAG = 100 };
enum { ON, JOIN_AGAIN, THE_END };

struct counts {
    uint64_t pid, rounds, messages, bytes, joins, told, strange, lost, doubled, disorder, damaged;
};
static volatile struct counts *counts;

struct head {
    uint64_t magic, incarnation, side, from, to, stream, number, length, then, sum;
};
static const uint64_t MAGIC = 0x7472616666696321;

static MPI_Comm inter = MPI_COMM_NULL;
static int handle = -1, me, mine, theirs, side;
static const char *my_name, *their_name;
static uint64_t seed, drawn, incarnation, other[PEERS];
static int gone, late;

/* How many messages went, and which comes next, of each stream; bit b of `missing`: number next - 1 - b has not come. */
static uint64_t sent[PEERS][STREAMS], next[PEERS][STREAMS], missing[PEERS][STREAMS];

static char *out[PEERS][EACH], *in[PEERS * EACH];
static MPI_Request requests[2 * PEERS * EACH];

/* What is done wrong, and for how many messages more. */
static const char *plant = "";
static int planted;

static uint64_t draw(void) { return kit_word(seed, ++drawn); }

/* An error is told: of a kind that is documented, and what comes of it. */
static int told(int code, const char *call)
{
    if (code == MPI_SUCCESS) return 0;
    int class = kit_class(code);
    const char *kind = class == gone ? "PEER_GONE" : class == late ? "TIMEOUT" : class == MPI_ERR_NAME ? "NAME" : NULL;
    ++counts->told;
    if (!kind) ++counts->strange;
    printf("TOLD %s %s %s\n", call, kind ? kind : "STRANGE", kit_error(code));
    fflush(stdout);
    return 1;
}

/* Whether any rank of this job has met an error. */
static int any(int wrong)
{
    int all = 0;
    OK(MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    return all;
}

static uint64_t sum_of(const struct head *head)
{
    uint64_t sum = MAGIC;
    for (const uint64_t *word = &head->magic; word < &head->sum; ++word) sum = kit_word(sum, *word);
    return sum;
}

/* The content of a message follows from its head. */
static uint64_t content(const struct head *head) { return head->sum; }

/* The number of the next message, which is wrong for one, or two, of the first in the first stream. */
static uint64_t number_of(int peer, int stream)
{
    uint64_t number = sent[peer][stream]++;
    if (!planted || me || peer || stream != 1 || number < 2) return number;
    if (!strcmp(plant, "lost")) sent[peer][stream] += planted--, number += 1;
    if (!strcmp(plant, "doubled")) sent[peer][stream] -= (uint64_t)planted--, number -= 1;
    if (!strcmp(plant, "swapped")) number = number == 2 ? 3 : (planted = 0, 2);
    return number;
}

static void prepare(char *to, int peer, int stream, size_t length, int then)
{
    struct head head = {MAGIC, incarnation, (uint64_t)side, (uint64_t)me, (uint64_t)peer, (uint64_t)stream,
                        number_of(peer, stream), length, (uint64_t)then, 0};
    head.sum = sum_of(&head);
    memcpy(to, &head, sizeof head);
    kit_fill(to + sizeof head, length - sizeof head, content(&head));
    if (planted && !me && !strcmp(plant, "damaged") && length > sizeof head) to[length - 1] ^= 1, planted = 0;
}

/* Looks at a message; what its sender does after this round. */
static int examine(const char *from, const MPI_Status *status, int peer, int stream)
{
    struct head head;
    int length = -1;
    MPI_Get_count((MPI_Status *)status, MPI_BYTE, &length);
    memcpy(&head, from, sizeof head);
    int whole = length >= (int)sizeof head && head.sum == sum_of(&head) && head.magic == MAGIC;
    if (peer < 0) peer = status->MPI_SOURCE;
    whole = whole && (int)head.length == length && head.side == (uint64_t)!side && head.to == (uint64_t)me;
    whole = whole && head.from == (uint64_t)peer && status->MPI_SOURCE == peer && head.incarnation == other[peer];
    if (stream < 0) stream = whole ? (int)head.stream : 0;
    whole = whole && head.stream == (uint64_t)stream;
    whole = whole && kit_wrong(from + sizeof head, (size_t)length - sizeof head, content(&head)) < 0;
    ++counts->messages;
    counts->bytes += (uint64_t)(length > 0 ? length : 0);
    if (!whole) {
        ++counts->damaged;
        kit_fail(__FILE__, __LINE__, "a message of %d bytes from %d is damaged", length, peer);
        return ON;
    }
    uint64_t *due = &next[peer][stream], *lack = &missing[peer][stream], number = head.number;
    if (number >= *due) {
        uint64_t left_out = number - *due;
        counts->lost += left_out;
        *lack = left_out + 1 < 64 ? *lack << (left_out + 1) | (((1ull << left_out) - 1) << 1) : ~1ull;
        *due = number + 1;
        if (left_out) kit_fail(__FILE__, __LINE__, "stream %d of %d: %llu too early", stream, peer, (unsigned long long)number);
    } else {
        uint64_t before = *due - 1 - number, bit = before < 64 ? 1ull << before : 0;
        if (*lack & bit) {
            *lack &= ~bit;
            --counts->lost;
            ++counts->disorder;
        } else
            ++counts->doubled;
        kit_fail(__FILE__, __LINE__, "stream %d of %d: %llu too late", stream, peer, (unsigned long long)number);
    }
    return (int)head.then;
}

/* Waits for all of these; what went wrong is told once, and the rest is given up. */
static int finish(MPI_Request *all, int count, MPI_Status *statuses)
{
    static int done[2 * PEERS * EACH];
    static MPI_Status some[2 * PEERS * EACH];
    for (int left = count; left > 0;) {
        int n = 0;
        int code = MPI_Waitsome(count, all, &n, done, some);
        if (code != MPI_SUCCESS) {
            for (int i = 0; kit_class(code) == MPI_ERR_IN_STATUS && i < n; ++i)
                if (some[i].MPI_ERROR != MPI_SUCCESS && some[i].MPI_ERROR != MPI_ERR_PENDING) code = some[i].MPI_ERROR;
            told(code, "Waitsome");
            for (int i = 0; i < count; ++i)
                if (all[i] != MPI_REQUEST_NULL) {
                    MPI_Cancel(&all[i]);
                    MPI_Request_free(&all[i]);
                }
            return 1;
        }
        if (n == MPI_UNDEFINED) break;
        for (int i = 0; i < n && statuses; ++i) statuses[done[i]] = some[i];
        left -= n;
    }
    return 0;
}

/* Buffers in which nobody writes any more, or new ones when somebody still may. */
static void buffers(void)
{
    for (int p = 0; p < PEERS * EACH; ++p) {
        in[p] = p < theirs * EACH ? kit_alloc(MOST) : NULL;
        if (p < theirs * EACH) out[p / EACH][p % EACH] = kit_alloc(MOST);
    }
}

static void give_up(void)
{
    /* An error here is one of the program, and is told as such. */
    if (inter != MPI_COMM_NULL) told(MPI_Comm_free(&inter), "Comm_free");
    inter = MPI_COMM_NULL;
}

static void leave_name(void)
{
    if (handle >= 0) told(MPI_Conn_remove(handle), "Conn_remove");
    handle = -1;
}

/* All of both jobs tell each other who they are from now on. */
static int greet(void)
{
    MPI_Request all[2 * PEERS];
    incarnation = draw();
    int wrong = 0;
    for (int p = 0; p < theirs; ++p) {
        all[2 * p] = all[2 * p + 1] = MPI_REQUEST_NULL;
        wrong |= told(MPI_Irecv(&other[p], 8, MPI_BYTE, p, GREETING, inter, &all[2 * p]), "Irecv");
        wrong |= told(MPI_Isend(&incarnation, 8, MPI_BYTE, p, GREETING, inter, &all[2 * p + 1]), "Isend");
    }
    return finish(all, 2 * theirs, NULL) | wrong;
}

static int is_over(void)
{
    int over = me == 0 && kit_is_there(kit_path("over-%d", !side));
    OK(MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD));
    return over;
}

/* Joins, however often it takes. Not if the other job has seen the end, which this one was not told of. */
static int join(void)
{
    for (;; kit_sleep_ms(100)) {
        if (is_over()) return 0;
        /* One of them comes first, and waits. */
        uint64_t pause = draw() % 4 ? 0 : draw() % 600;
        OK(MPI_Bcast(&pause, 8, MPI_BYTE, 0, MPI_COMM_WORLD));
        kit_sleep_ms((int)pause);
        if (handle < 0 && any(told(MPI_Conn_register(my_name, MPI_COMM_WORLD, &handle), "Conn_register"))) {
            leave_name();
            continue;
        }
        if (any(told(MPI_Conn_intercomm_create(handle, their_name, &inter), "Conn_intercomm_create"))) {
            give_up();
            leave_name();
            continue;
        }
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        OK(MPI_Comm_remote_size(inter, &theirs));
        memset(sent, 0, sizeof sent);
        memset(next, 0, sizeof next);
        memset(missing, 0, sizeof missing);
        if (!any(greet())) break;
        give_up();
        leave_name();
    }
    ++counts->joins;
    buffers();
    return 1;
}

static int stream_of(int k) { return k < SMALL ? 1 + k % 2 : k < SMALL + MEDIUM ? 3 : k < EACH - WILD ? 4 : 5 + k % 2; }
static int is_wild(int k) { return k >= EACH - WILD; }

/* The other side is at most one round ahead, which a tag for any source must show. */
static int tag_of(int k, unsigned round) { return is_wild(k) ? WILD_TAG + (int)(round % 4) : stream_of(k); }

static size_t length_of(int k)
{
    size_t head = sizeof(struct head);
    switch (stream_of(k)) {
    case 3: return head + draw() % (96 << 10);
    case 4: return MOST / 2 + draw() % (MOST / 2);
    case 6: return head + draw() % 20000;
    default: return head + draw() % 1000;
    }
}

/* One round; what comes after it, or -1 if a call was told an error. */
static int play(unsigned round, int then)
{
    static MPI_Status statuses[2 * PEERS * EACH];
    static int streams[PEERS * EACH], peers[PEERS * EACH];
    int n = 0, total = theirs * EACH, wrong = 0, way = (int)(round % 3);
    for (int i = 0; i < 2 * total; ++i) requests[i] = MPI_REQUEST_NULL;
    for (int p = 0; p < theirs && !wrong; ++p)
        for (int k = 0; k < EACH && !wrong; ++k) {
            int wild = is_wild(k), from = p, tag = tag_of(k, round);
            if (way == 1) tag = MPI_ANY_TAG;
            if (wild && way == 0) from = MPI_ANY_SOURCE;
            if (wild && way == 2) continue; /* they are probed for */
            peers[n] = from == MPI_ANY_SOURCE ? -1 : p;
            streams[n] = way == 1 || wild ? -1 : stream_of(k);
            wrong |= told(MPI_Irecv(in[n], MOST, MPI_BYTE, from, tag, inter, &requests[n]), "Irecv");
            ++n;
        }
    int received = n;
    for (int k = 0; k < EACH && !wrong; ++k)
        for (int p = 0; p < theirs && !wrong; ++p) {
            size_t length = length_of(k);
            int stream = stream_of(k), tag = tag_of(k, round);
            prepare(out[p][k], p, stream, length, then);
            int code = draw() % 8 ? MPI_Isend(out[p][k], (int)length, MPI_BYTE, p, tag, inter, &requests[n])
                                  : MPI_Issend(out[p][k], (int)length, MPI_BYTE, p, tag, inter, &requests[n]);
            wrong |= told(code, "Isend");
            ++n;
        }
    int next_is = ON;
    for (int i = 0; way == 2 && i < theirs * WILD && !wrong; ++i) {
        MPI_Status status, got;
        int length = 0, tag = tag_of(EACH - 1, round);
        if ((wrong |= told(MPI_Probe(MPI_ANY_SOURCE, tag, inter, &status), "Probe"))) break;
        MPI_Get_count(&status, MPI_BYTE, &length);
        char *to = in[received + i];
        wrong |= told(MPI_Recv(to, length, MPI_BYTE, status.MPI_SOURCE, tag, inter, &got), "Recv");
        if (!wrong) next_is = examine(to, &got, status.MPI_SOURCE, -1);
    }
    wrong |= finish(requests, n, statuses);
    if (wrong) return -1;
    for (int i = 0; i < received; ++i) next_is = examine(in[i], &statuses[i], peers[i], streams[i]);
    ++counts->rounds;
    return side == 0 ? then : next_is;
}

/* Rounds until the end of this inter-communicator, or of all. */
static int traffic(void)
{
    uint64_t rounds = 5 + draw() % 30;
    for (unsigned round = 0;; ++round) {
        int then = round >= rounds ? JOIN_AGAIN : ON;
        if (kit_is_there(kit_path("enough"))) then = THE_END;
        OK(MPI_Bcast(&then, 1, MPI_INT, 0, MPI_COMM_WORLD));
        then = play(round, then);
        if (any(then < 0)) return -1;
        if (then != ON) return then;
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 5) return 2;
    kit_label = my_name = argv[1];
    their_name = argv[2];
    side = atoi(argv[3]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &mine);
    kit_rank = me;
    if (argc > 5) plant = argv[5], planted = 1;
    seed = kit_word(strtoull(argv[4], NULL, 10), (uint64_t)(2 * me + side));
    OK(MPI_Conn_error_class(MPI_CONN_ERR_PEER_GONE, &gone));
    OK(MPI_Conn_error_class(MPI_CONN_ERR_TIMEOUT, &late));
    int file = open(kit_path("count-%d-%d", side, me), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || ftruncate(file, sizeof *counts)) MPI_Abort(MPI_COMM_WORLD, 3);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    counts->pid = (uint64_t)getpid();
    for (int then = ON; then != THE_END && join();) {
        then = traffic();
        int broken = then < 0;
        if (!broken)
            for (int p = 0; p < theirs * EACH; ++p) {
                free(in[p]);
                free(out[p / EACH][p % EACH]);
            }
        give_up();
        /* The same on all ranks: the name goes in every second incarnation, and whenever something was wrong. */
        if (broken || counts->joins % 2) leave_name();
    }
    if (me == 0) kit_write(kit_path("over-%d", side), "");
    leave_name();
    kit_checks += (long)counts->messages;
    int result = kit_end();
    MPI_Finalize();
    return result;
}
