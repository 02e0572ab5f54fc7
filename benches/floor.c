/* The floor: a ping-pong over TCP that makes no system calls but send and recv, and keeps every round trip.
 *
 *   floor server PORT [spin] [DUTY...]
 *   floor client ADDRESS PORT SECONDS SIZE WARM_UP [spin] [DUTY...]
 *
 * The client goes on until, by its own stamps, that time has passed since the round trips of its warm-up. Blocking: recv waits. Spinning: the socket never blocks, and recv is tried until something comes. The clock is read
 * just before send and just after the recv that brings the end of the echo, as `fathom probe` does. The client prints
 * one JSON line: count, p50, p99, p99.9, mean (all ns) and round trips per second.
 *
 * Duties, each of which fathom has and the floor has not; given at both ends (messages of 64 bytes at least):
 *
 *   stamps   the client numbers its messages and reads the clock once more in each turn; the server writes when it read and
 *            when it sends into each, so that it reads the clock twice
 *   checks   halves of 32 bytes end with their CRC-32: the client's is made, and looked at by the server twice; the
 *            server's is made, and looked at by the client, which compares the rest byte for byte
 *   looks    epoll is asked for other news: by the client every 10 ms, which asks for TCP_INFO every 100 ms too; by the
 *            server after 16 messages, or 64 tries that found nothing
 *   told     epoll is told of the connection, as it was in fathom until 2026-11-26: no duty where it is read all the time
 *   timeout  the client's blocking recv waits for 10 ms at most, as fathom's does
 *   wakes    a second thread of the client wakes every 0.7 s, as fathom's recording thread does
 *   records  the client keeps 40 bytes of each round trip and counts it in a histogram
 *
 * As in fathom, the client sends the next message before it does anything with an echo. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HALF = 32, CHECKED = 28, TRIES = 64, MESSAGES = 16, BUCKETS = 4096 };
#define LOOK_NS 10000000
#define INFO_NS 100000000
/* Room for round trips: more a second than any pair here does. */
#define MOST_PER_S 400000

static bool spin, stamps, checks, looks, told, records, timeout, wakes;

/* What the client keeps of a round trip. */
struct record {
    int64_t sent, rtt, there, back;
    uint64_t number;
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CRC-32 (IEEE 802.3) of four bytes at a time. */
static uint32_t table[4][256];

static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
        table[0][i] = c;
    }
    for (int k = 1; k < 4; k++)
        for (int i = 0; i < 256; i++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t check_of(const char *half) {
    uint32_t c = ~0u, word;
    for (int i = 0; i < CHECKED; i += 4) {
        memcpy(&word, half + i, sizeof word);
        c ^= word;
        c = table[3][c & 255] ^ table[2][c >> 8 & 255] ^ table[1][c >> 16 & 255] ^ table[0][c >> 24];
    }
    return ~c;
}

static void seal(char *half) {
    uint32_t check = check_of(half);
    memcpy(half + CHECKED, &check, sizeof check);
}

static void verify(const char *half) {
    uint32_t check;
    memcpy(&check, half + CHECKED, sizeof check);
    if (check != check_of(half)) fputs("a message is damaged\n", stderr), exit(1);
}

static void prepare(int fd) {
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) die("setsockopt");
    if (spin && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) die("fcntl");
}

static void *wake_rarely(void *unused) {
    struct timespec rest = {.tv_nsec = 700000000};
    while (unused == NULL) nanosleep(&rest, NULL);
    return NULL;
}

static int reactor(int fd) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
    int epoll = epoll_create1(0);
    if (epoll < 0 || (told && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)) die("epoll");
    return epoll;
}

static void look(int epoll) {
    struct epoll_event events[16];
    if (epoll_wait(epoll, events, 16, 0) < 0 && errno != EINTR) die("epoll_wait");
}

/* One recv that brings something; 0 at the end of the stream. A server looks for other news after TRIES (epoll < 0: not). */
static size_t receive(int fd, char *buffer, size_t size, int epoll) {
    for (int tries = 0;; tries++) {
        ssize_t n = recv(fd, buffer, size, 0);
        if (n >= 0) return (size_t)n;
        if (errno != EAGAIN && errno != EINTR) die("recv");
        if (tries == TRIES && looks && epoll >= 0) tries = 0, look(epoll);
    }
}

static void transmit(int fd, const char *buffer, size_t size) {
    while (size > 0) {
        ssize_t n = send(fd, buffer, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) die("send");
        if (n > 0) buffer += n, size -= (size_t)n;
    }
}

/* What the server does with a message before it sends it back. */
static void answer(char *message, int64_t received) {
    if (checks) verify(message), verify(message);
    if (stamps) {
        int64_t sent = now_ns();
        memcpy(message + HALF, &received, sizeof received);
        memcpy(message + HALF + sizeof received, &sent, sizeof sent);
    }
    if (checks) seal(message + HALF);
}

_Noreturn static void serve(int port) {
    static char buffer[65536];
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) != 0) die("bind");
    if (listen(listener, 16) != 0) die("listen");
    puts("listening");
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL), served = 0;
        if (fd < 0) die("accept");
        prepare(fd);
        int epoll = (looks || told) && spin ? reactor(fd) : -1;
        for (size_t n; (n = receive(fd, buffer, sizeof buffer, epoll)) > 0;) {
            int64_t received = stamps ? now_ns() : 0;
            if (n >= 2 * HALF) answer(buffer, received);
            transmit(fd, buffer, n);
            if (looks && epoll >= 0 && ++served == MESSAGES) served = 0, look(epoll);
        }
        close(fd);
        if (epoll >= 0) close(epoll);
    }
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The client's looks, after it has sent. */
static void look_at_times(int epoll, int fd, int64_t now) {
    static int64_t looked, asked;
    if (now - looked >= LOOK_NS) looked = now, look(epoll);
    if (now - asked >= INFO_NS) {
        struct tcp_info info;
        socklen_t len = sizeof info;
        asked = now;
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) die("TCP_INFO");
    }
}

/* What the client does with an echo: held against the message that was sent. */
static void examine(const char *echo, const char *message, struct record *record) {
    if (stamps) {
        memcpy(&record->there, echo + HALF, sizeof record->there);
        memcpy(&record->back, echo + HALF + sizeof record->there, sizeof record->back);
    }
    if (!checks) return;
    for (int i = 0; i < HALF; i++)
        if (echo[i] != message[i]) fputs("an echo is not what was sent\n", stderr), exit(1);
    verify(echo + HALF);
}

static int probe(const char *address, int port, double seconds, size_t size, size_t warm_up) {
    static uint32_t histogram[BUCKETS];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char *message = calloc(1, size), *before = calloc(1, size), *echo = malloc(size);
    size_t most = (size_t)(seconds * MOST_PER_S), count = 0;
    int64_t *rtt = malloc(most * sizeof *rtt), span = (int64_t)(seconds * 1e9), began = 0, sent, next;
    struct record *kept = records ? malloc((warm_up + most) * sizeof *kept) : NULL, one = {0};
    if (message == NULL || before == NULL || echo == NULL || rtt == NULL || (records && kept == NULL)) die("malloc");
    if ((stamps || checks) && size < 2 * HALF) fputs("too small for these duties\n", stderr), exit(2);
    /* Memory that has been written to: no page faults among the round trips. */
    memset(rtt, 1, most * sizeof *rtt);
    if (records) memset(kept, 1, (warm_up + most) * sizeof *kept);
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) die("inet_pton");
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) die("connect");
    prepare(fd);
    struct timeval longest = {.tv_usec = LOOK_NS / 1000};
    if (timeout && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest) != 0) die("SO_RCVTIMEO");
    pthread_t thread;
    if (wakes && pthread_create(&thread, NULL, wake_rarely, NULL) != 0) die("pthread_create");
    int epoll = looks || told ? reactor(fd) : -1;
    if (checks) seal(message);
    sent = now_ns();
    transmit(fd, message, size);
    bool more = true;
    for (size_t i = 0; more; i++) {
        for (size_t got = 0, n; got < size; got += n) {
            n = receive(fd, echo + got, size - got, -1);
            if (n == 0) return fputs("the server ended the connection\n", stderr), 1;
        }
        int64_t came = now_ns();
        one.sent = sent, one.rtt = came - sent, one.number = i;
        if (stamps || checks) {
            memcpy(before, message, 2 * HALF);
            uint64_t number = i + 1;
            memcpy(message + 16, &number, sizeof number);
            if (checks) seal(message);
        }
        next = now_ns();
        more = i + 1 <= warm_up || next - began < span;
        if (more) transmit(fd, message, size);
        if (i + 1 == warm_up) began = next;
        if (i >= warm_up) {
            if (count == most) return fputs("more round trips than there is room for\n", stderr), 1;
            rtt[count++] = one.rtt;
        }
        if (stamps || checks) examine(echo, before, &one);
        if (records) {
            kept[i] = one;
            histogram[one.rtt / 16 < BUCKETS ? one.rtt / 16 : BUCKETS - 1]++;
        }
        int64_t now = stamps || looks ? now_ns() : 0;
        if (looks) look_at_times(epoll, fd, now);
        sent = next;
    }
    double took = (double)(sent - began) / 1e9, sum = 0;
    uint64_t counted = 0;
    for (size_t i = 0; i < BUCKETS; i++) counted += histogram[i];
    if (records && (counted != warm_up + count || kept[count - 1].number != count - 1)) return fputs("lost\n", stderr), 1;
    for (size_t i = 0; i < count; i++) sum += (double)rtt[i];
    qsort(rtt, count, sizeof *rtt, ascending);
    printf("{\"count\": %zu, \"p50\": %" PRId64 ", \"p99\": %" PRId64 ", \"p99_9\": %" PRId64
           ", \"mean\": %.0f, \"per_s\": %.1f}\n", count, rtt[(count - 1) / 2], rtt[(count * 99 + 99) / 100 - 1],
           rtt[(count * 999 + 999) / 1000 - 1], sum / (double)count, (double)count / took);
    return 0;
}

static int usage(void) {
    fputs("usage: floor server PORT [spin] [DUTY...]\n"
          "       floor client ADDRESS PORT SECONDS SIZE WARM_UP [spin] [DUTY...]\n"
          "duties: stamps, checks, looks, told, records, timeout, wakes\n", stderr);
    return 2;
}

int main(int argc, char **argv) {
    bool server = argc >= 3 && strcmp(argv[1], "server") == 0, client = argc >= 7 && strcmp(argv[1], "client") == 0;
    if (!server && !client) return usage();
    for (int i = server ? 3 : 7; i < argc; i++) {
        static const char *names[] = {"spin", "stamps", "checks", "looks", "told", "records", "timeout", "wakes"};
        bool *flags[] = {&spin, &stamps, &checks, &looks, &told, &records, &timeout, &wakes};
        size_t count = sizeof flags / sizeof *flags, found = 0;
        while (found < count && strcmp(argv[i], names[found]) != 0) found++;
        if (found == count) return usage();
        *flags[found] = true;
    }
    make_table();
    if (server) serve(atoi(argv[2]));
    return probe(argv[2], atoi(argv[3]), strtod(argv[4], NULL), strtoull(argv[5], NULL, 10),
                 strtoull(argv[6], NULL, 10));
}
