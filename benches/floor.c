/* The floor: a ping-pong over TCP that makes no system calls but send and recv, and keeps every round trip.
 *
 *   floor server PORT [spin]
 *   floor client ADDRESS PORT COUNT SIZE WARM_UP [spin]
 *
 * Blocking: recv waits. Spinning: the socket never blocks, and recv is tried until something comes. The clock is read
 * just before send and just after the recv that brings the end of the echo, as `fathom probe` does. The client prints
 * one JSON line: count, p50, p99, p99.9, mean (all ns) and round trips per second. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void prepare(int fd, int spin) {
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) die("setsockopt");
    if (spin && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) die("fcntl");
}

/* One recv that brings something; 0 at the end of the stream. */
static size_t receive(int fd, char *buffer, size_t size) {
    for (;;) {
        ssize_t n = recv(fd, buffer, size, 0);
        if (n >= 0) return (size_t)n;
        if (errno != EAGAIN && errno != EINTR) die("recv");
    }
}

static void transmit(int fd, const char *buffer, size_t size) {
    while (size > 0) {
        ssize_t n = send(fd, buffer, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) die("send");
        if (n > 0) buffer += n, size -= (size_t)n;
    }
}

_Noreturn static void serve(int port, int spin) {
    static char buffer[65536];
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) != 0) die("bind");
    if (listen(listener, 16) != 0) die("listen");
    puts("listening");
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) die("accept");
        prepare(fd, spin);
        for (size_t n; (n = receive(fd, buffer, sizeof buffer)) > 0;) transmit(fd, buffer, n);
        close(fd);
    }
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int probe(const char *address, int port, size_t count, size_t size, size_t warm_up, int spin) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char *message = calloc(1, size), *echo = malloc(size);
    int64_t *rtt = calloc(count, sizeof *rtt), began = 0;
    if (message == NULL || echo == NULL || rtt == NULL) die("malloc");
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) die("inet_pton");
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) die("connect");
    prepare(fd, spin);
    for (size_t i = 0; i < warm_up + count; i++) {
        int64_t sent = now_ns();
        if (i == warm_up) began = sent;
        transmit(fd, message, size);
        for (size_t got = 0, n; got < size; got += n) {
            n = receive(fd, echo + got, size - got);
            if (n == 0) return fputs("the server ended the connection\n", stderr), 1;
        }
        if (i >= warm_up) rtt[i - warm_up] = now_ns() - sent;
    }
    double seconds = (double)(now_ns() - began) / 1e9, sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)rtt[i];
    qsort(rtt, count, sizeof *rtt, ascending);
    printf("{\"count\": %zu, \"p50\": %" PRId64 ", \"p99\": %" PRId64 ", \"p99_9\": %" PRId64
           ", \"mean\": %.0f, \"per_s\": %.1f}\n", count, rtt[(count - 1) / 2], rtt[(count * 99 + 99) / 100 - 1],
           rtt[(count * 999 + 999) / 1000 - 1], sum / (double)count, (double)count / seconds);
    return 0;
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "server") == 0) serve(atoi(argv[2]), argc > 3);
    if (argc >= 7 && strcmp(argv[1], "client") == 0)
        return probe(argv[2], atoi(argv[3]), strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10),
                     strtoull(argv[6], NULL, 10), argc > 7);
    fputs("usage: floor server PORT [spin] | floor client ADDRESS PORT COUNT SIZE WARM_UP [spin]\n", stderr);
    return 2;
}
