/* A client that keeps streams open and says when their tokens came.
 *
 *   stream_client PORT CONCURRENCY RAMP_SECONDS WARMUP_SECONDS SECONDS BODY_FILE
 *
 * Streams begin evenly over the ramp, so that they do not all begin and end together; every connection sends the next
 * request as soon as its stream has ended. Prints one JSON object: requests and
 * tokens of streams that began after the warm-up, tokens in all, errors, and quantiles of the time to the first token and of the time per output token over the streams that began
 * after the warm-up. One thread, epoll, loopback only. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_SAMPLES (1 << 22)
#define TAIL 5 /* "data:" can be split between two reads */

struct stream {
    int fd;
    double sent, first, last;
    long events;
    char tail[TAIL];
    int status_seen, done;
};

static struct stream *streams;
static int epoll_fd, port;
static char *request;
static size_t request_length;
static double *ttft, *tpot;
static long samples, requests, tokens, all_tokens, errors;
static double measure_from;

static double now(void) {
    struct timespec value;
    clock_gettime(CLOCK_MONOTONIC, &value);
    return value.tv_sec + value.tv_nsec * 1e-9;
}

static void begin(struct stream *s) {
    s->events = 0;
    s->first = s->last = 0;
    s->status_seen = s->done = 0;
    memset(s->tail, 0, TAIL);
    s->sent = now();
    if (send(s->fd, request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length) errors++;
}

static void dial(struct stream *s) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(s->fd, (struct sockaddr *)&address, sizeof address)) {
        perror("connect");
        exit(1);
    }
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->fd, &event);
    begin(s);
}

static void finish(struct stream *s) {
    long count = s->events - 1; /* without the end mark */
    if (s->sent < measure_from) return;
    requests++;
    tokens += count;
    if (count > 1 && samples < MAX_SAMPLES) {
        ttft[samples] = s->first - s->sent;
        tpot[samples++] = (s->last - s->first) / (count - 1);
    }
}

/* Count the events of one read; the bytes before it may hold the beginning of one. */
static void take(struct stream *s, char *data, ssize_t length, double at) {
    char joined[(1 << 16) + TAIL];
    memcpy(joined, s->tail, TAIL);
    memcpy(joined + TAIL, data, length);
    char *end = joined + TAIL + length, *from = joined;
    if (!s->status_seen) {
        s->status_seen = 1;
        if (!memmem(data, length, " 200 ", 5)) errors++;
    }
    while ((from = memmem(from, end - from, "data:", 5))) {
        from += 5;
        s->events++;
        all_tokens++;
        if (end - from >= 7 && memcmp(from, " [DONE]", 7) == 0) {
            all_tokens--; /* the end mark is no token */
            continue;
        }
        if (!s->first) s->first = at;
        s->last = at;
    }
    memset(s->tail, 0, TAIL);
    /* Keep four bytes only, so that a whole "data:" is never counted twice. */
    size_t keep = length < TAIL - 1 ? length : TAIL - 1;
    memcpy(s->tail + TAIL - keep, data + length - keep, keep);
    if (length >= 5 && memcmp(data + length - 5, "0\r\n\r\n", 5) == 0) s->done = 1;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, double share) { return samples ? values[(long)(share * (samples - 1))] : 0; }

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: stream_client PORT CONCURRENCY RAMP_SECONDS WARMUP_SECONDS SECONDS BODY_FILE\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    port = atoi(argv[1]);
    int concurrency = atoi(argv[2]);
    FILE *file = fopen(argv[6], "rb");
    if (!file) return 2;
    static char body[1 << 20];
    size_t length = fread(body, 1, sizeof body, file);
    fclose(file);
    request_length = asprintf(&request,
                              "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                              "Content-Length: %zu\r\n\r\n%.*s",
                              length, (int)length, body);
    ttft = malloc(sizeof *ttft * MAX_SAMPLES);
    tpot = malloc(sizeof *tpot * MAX_SAMPLES);
    streams = calloc(concurrency, sizeof *streams);
    epoll_fd = epoll_create1(0);
    double started = now();
    measure_from = started + atof(argv[4]);
    double until = measure_from + atof(argv[5]);
    double gap = atof(argv[3]) / concurrency;
    int begun = 0;
    while (now() < until) {
        struct epoll_event ready[512];
        while (begun < concurrency && now() >= started + begun * gap) dial(&streams[begun++]);
        int count = epoll_wait(epoll_fd, ready, 512, begun < concurrency ? 1 : 100);
        for (int index = 0; index < count; index++) {
            struct stream *s = ready[index].data.ptr;
            static char data[1 << 16];
            ssize_t received = recv(s->fd, data, sizeof data, 0);
            if (received > 0) take(s, data, received, now());
            if (received > 0 && s->done) {
                finish(s);
                begin(s);
            }
            if (received <= 0) {
                errors++;
                close(s->fd);
                dial(s);
            }
        }
    }
    double seconds = now() - measure_from;
    qsort(ttft, samples, sizeof *ttft, ascending);
    qsort(tpot, samples, sizeof *tpot, ascending);
    printf("{\"seconds\": %.4f, \"requests\": %ld, \"tokens\": %ld, \"all_tokens\": %ld, \"errors\": %ld, \"samples\": %ld, "
           "\"ttft_p50_ms\": %.4f, \"ttft_p99_ms\": %.4f, \"tpot_p50_ms\": %.4f, \"tpot_p99_ms\": %.4f}\n",
           seconds, requests, tokens, all_tokens, errors, samples, 1e3 * quantile(ttft, .5), 1e3 * quantile(ttft, .99),
           1e3 * quantile(tpot, .5), 1e3 * quantile(tpot, .99));
    return 0;
}
