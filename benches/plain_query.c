/* A client that measures nothing but the time: it logs in without a password, asks the same query again and again, finds
 * where each row of the answer ends, as any client must, and keeps none. benches/sql_overhead.py holds `fathom sql`
 * against it.
 *
 *   plain_query postgres|mysql ADDRESS PORT USER DATABASE COUNT QUERY [poll]
 *
 * Its requests are those of `fathom sql`: Parse, Bind, Execute and Sync in one send, or COM_QUERY. recv waits, or with
 * `poll` that does, as in `fathom sql`; recv takes 64 KiB at most. The clock is read before the request and after the recv that brings the end of the answer. It prints
 * one JSON line: rows of an answer, and every query's time in ns. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 64 << 10, LONGEST = 1 << 20 };

static int fd, by_poll;
static unsigned char in[BUFFER + LONGEST];
static size_t have, taken;
static uint64_t rows;

_Noreturn static void end(const char *what) {
    fprintf(stderr, "plain_query: %s\n", what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void transmit(const unsigned char *bytes, size_t size) {
    while (size > 0) {
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) end(strerror(errno));
        if (n > 0) bytes += n, size -= (size_t)n;
    }
}

/* At least so many bytes that are not taken yet, one after the other in memory. */
static unsigned char *need(size_t size) {
    if (size > LONGEST) end("a message of more than 1 MiB");
    while (have - taken < size) {
        if (taken > 0) {
            memmove(in, in + taken, have - taken);
            have -= taken;
            taken = 0;
        }
        ssize_t n = recv(fd, in + have, BUFFER, by_poll ? MSG_DONTWAIT : 0);
        if (n == 0) end("the server closed the connection");
        if (n < 0 && errno == EAGAIN) {
            struct pollfd one = {.fd = fd, .events = POLLIN};
            poll(&one, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            end(strerror(errno));
        }
        if (n > 0) have += (size_t)n;
    }
    return in + taken;
}

static uint32_t be32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static unsigned char *put32(unsigned char *at, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) *at++ = (unsigned char)(value >> shift);
    return at;
}

static unsigned char *put_text(unsigned char *at, const char *text) {
    size_t size = strlen(text) + 1;
    memcpy(at, text, size);
    return at + size;
}

/* Reads an answer of PostgreSQL to its ReadyForQuery. */
static void postgres_answer(void) {
    for (;;) {
        unsigned char *at = need(5);
        unsigned char tag = at[0];
        size_t size = be32(at + 1);
        if (size < 4) end("no message of PostgreSQL's");
        at = need(size + 1);
        if (tag == 'E') end("the server refuses");
        if (tag == 'R' && be32(at + 5) != 0) end("the server wants a password");
        rows += tag == 'D';
        taken += size + 1;
        if (tag == 'Z') return;
    }
}

static size_t postgres_login(unsigned char *out, const char *user, const char *database) {
    unsigned char *at = put32(out + 4, 196608);
    at = put_text(put_text(at, "user"), user);
    at = put_text(put_text(at, "database"), database);
    *at++ = 0;
    put32(out, (uint32_t)(at - out));
    return (size_t)(at - out);
}

static size_t postgres_request(unsigned char *out, const char *sql) {
    unsigned char *at = out;
    *at = 'P';
    unsigned char *behind = put_text(put_text(at + 5, ""), sql);
    *behind++ = 0, *behind++ = 0;
    put32(at + 1, (uint32_t)(behind - at - 1));
    static const unsigned char rest[] = {
        'B', 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 'E', 0, 0, 0, 9, 0, 0, 0, 0, 0, 'S', 0, 0, 0, 4,
    };
    memcpy(behind, rest, sizeof rest);
    return (size_t)(behind - out) + sizeof rest;
}

static size_t mysql_packet(size_t *behind) {
    unsigned char *at = need(4);
    size_t size = (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16;
    need(4 + size);
    *behind = taken + 4 + size;
    return size;
}

/* Reads an answer of MySQL: columns, EOF, rows, EOF. */
static void mysql_answer(void) {
    int ends = 0, is_first = 1;
    while (ends < 2) {
        size_t behind, size = mysql_packet(&behind);
        unsigned char head = in[taken + 4];
        if (head == 0xff) end("the server refuses");
        int is_end = head == 0xfe && size < 9;
        rows += ends == 1 && !is_end;
        if (is_first && head == 0) ends = 2; /* OK: there are no rows */
        ends += is_end;
        is_first = 0;
        taken = behind;
    }
}

static size_t mysql_framed(unsigned char *out, size_t size, unsigned char number) {
    out[0] = (unsigned char)size, out[1] = (unsigned char)(size >> 8), out[2] = (unsigned char)(size >> 16);
    out[3] = number;
    return size + 4;
}

static size_t mysql_login(unsigned char *out, const char *user, const char *database) {
    size_t behind;
    mysql_packet(&behind);
    taken = behind;
    /* LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH. */
    uint32_t can = 0x1 | 0x8 | 0x200 | 0x8000 | 0x80000;
    unsigned char *at = out + 4;
    memset(at, 0, 32);
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(can >> (8 * i));
    at[7] = 1; /* packets of 16 MiB */
    at[8] = 45; /* utf8mb4 */
    at = put_text(at + 32, user);
    *at++ = 0; /* no password */
    at = put_text(put_text(at, database), "mysql_native_password");
    return mysql_framed(out, (size_t)(at - out - 4), 1);
}

static void mysql_plain(unsigned char *out, size_t size) {
    transmit(out, size);
    size_t behind;
    mysql_packet(&behind);
    if (in[taken + 4] != 0) end("the server refuses");
    taken = behind;
}

static size_t mysql_request(unsigned char *out, const char *sql) {
    size_t size = strlen(sql);
    out[4] = 3;
    memcpy(out + 5, sql, size);
    return mysql_framed(out, size + 1, 0);
}

int main(int count, char **words) {
    static unsigned char out[LONGEST];
    if (count < 8 || strlen(words[7]) > LONGEST / 2) end("postgres|mysql ADDRESS PORT USER DATABASE COUNT QUERY [poll]");
    by_poll = count > 8;
    int is_mysql = strcmp(words[1], "mysql") == 0, one = 1;
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[3]))};
    if (inet_pton(AF_INET, words[2], &where.sin_addr) != 1) end("no such address");
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) end(strerror(errno));
    if (connect(fd, (struct sockaddr *)&where, sizeof where) != 0) end(strerror(errno));
    if (is_mysql) {
        mysql_plain(out, mysql_login(out, words[4], words[5]));
    } else {
        transmit(out, postgres_login(out, words[4], words[5]));
        postgres_answer();
    }
    long queries = atol(words[6]);
    size_t size = is_mysql ? mysql_request(out, words[7]) : postgres_request(out, words[7]);
    int64_t *took_ns = calloc((size_t)queries, sizeof *took_ns);
    if (took_ns == NULL) end("no memory");
    for (long i = 0; i < queries; i++) {
        rows = 0;
        int64_t began_ns = now_ns();
        transmit(out, size);
        if (is_mysql) mysql_answer(); else postgres_answer();
        took_ns[i] = now_ns() - began_ns;
    }
    printf("{\"rows\": %" PRIu64 ", \"wall_ns\": [", rows);
    for (long i = 0; i < queries; i++) printf("%s%" PRId64, i ? ", " : "", took_ns[i]);
    puts("]}");
    return 0;
}
