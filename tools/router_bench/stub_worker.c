/* A worker for benchmarks that costs almost nothing: canned answers, and streams of pre-rendered server-sent events,
 * tick by tick, as an engine's steps produce them.
 *
 *   stub_worker TOKENS TICK_MICROSECONDS BURST PORT...
 *
 * BURST: tokens per stream and tick, each an event and an HTTP chunk of its own, in one write.
 * TICK_MICROSECONDS 0: as fast as the sockets take it. One thread, epoll, loopback only. */
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
#include <sys/timerfd.h>
#include <unistd.h>

#define MAX_FDS 8192
#define MAX_REQUEST (1 << 20)

struct connection {
    char *request;
    size_t filled;
    int listening;
    int streaming;
    int next_token; /* the first token that is not due yet */
    size_t sent;    /* bytes of the stream that are out already */
    int active_index;
};

static struct connection connections[MAX_FDS];
static int active[MAX_FDS], active_count;
static int epoll_fd, tokens, burst;
static char *stream_text;
static size_t *ends; /* where each token's event ends in `stream_text` */

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void render_answer(void) {
    static const char *body =
        "data: {\"id\":\"cmpl-0123456789abcdef0123456789abcdef\",\"object\":\"text_completion\",\"created\":1796000000,"
        "\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":%s,"
        "\"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}]}\n\n";
    stream_text = malloc((size_t)tokens * 512 + 64);
    ends = calloc(tokens, sizeof *ends);
    size_t filled = 0;
    for (int index = 0; index < tokens; index++) {
        char event[400];
        int last = index == tokens - 1;
        int length = snprintf(event, sizeof event, body, last ? "\"length\"" : "null");
        filled += sprintf(stream_text + filled, "%x\r\n%s\r\n%s", length, event,
                          last ? "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n" : "");
        ends[index] = filled;
    }
}

static void answer(int fd, const char *type, const char *body) {
    char text[4096];
    int length = snprintf(text, sizeof text,
                          "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s", type, strlen(body), body);
    if (send(fd, text, length, MSG_NOSIGNAL) != length) shutdown(fd, SHUT_RDWR);
}

static void stop_stream(struct connection *c) {
    if (!c->streaming) return;
    c->streaming = 0;
    active[c->active_index] = active[--active_count];
    connections[active[c->active_index]].active_index = c->active_index;
}

static void drop(int fd) {
    struct connection *c = &connections[fd];
    stop_stream(c);
    c->filled = 0;
    close(fd);
}

/* The next tokens of a stream, in one write; what its socket does not take now goes with the next tick. */
static void advance(int fd, int count) {
    struct connection *c = &connections[fd];
    c->next_token = c->next_token + count < tokens ? c->next_token + count : tokens;
    size_t due = ends[c->next_token - 1];
    ssize_t taken = send(fd, stream_text + c->sent, due - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) {
        if (errno != EAGAIN) shutdown(fd, SHUT_RDWR);
        return;
    }
    c->sent += taken;
    if (c->sent == ends[tokens - 1]) stop_stream(c);
}

static void start_stream(int fd) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct connection *c = &connections[fd];
    if (send(fd, head, sizeof head - 1, MSG_NOSIGNAL) != sizeof head - 1) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    c->streaming = 1;
    c->next_token = 0;
    c->sent = 0;
    c->active_index = active_count;
    active[active_count++] = fd;
    advance(fd, 1); /* the first token comes at once, so that the tick does not blur the time to it */
}

static int starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static void serve(int fd, char *request, const char *body) {
    if (starts_with(request, "POST /v1/")) {
        if (strstr(body, "\"stream\": true") || strstr(body, "\"stream\":true")) {
            start_stream(fd);
            return;
        }
        answer(fd, "application/json",
               "{\"id\":\"cmpl-0\",\"object\":\"text_completion\",\"created\":1796000000,\"model\":\"m\",\"choices\":[{"
               "\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}],"
               "\"usage\":{\"prompt_tokens\":8,\"total_tokens\":9,\"completion_tokens\":1}}");
    } else if (starts_with(request, "GET /v1/models")) {
        answer(fd, "application/json",
               "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\",\"created\":0,\"owned_by\":\"vllm\","
               "\"root\":\"/models/m\",\"parent\":null,\"max_model_len\":16384,\"permission\":[]}]}");
    } else if (starts_with(request, "POST /tokenize")) {
        answer(fd, "application/json", "{\"count\":8,\"max_model_len\":16384,\"tokens\":[1,2,3,4,5,6,7,8],\"token_strs\":null}");
    } else if (starts_with(request, "GET /metrics")) {
        answer(fd, "text/plain", "");
    } else {
        answer(fd, "application/json", "{}");
    }
}

/* Serve every complete request in the buffer. */
static void parse(int fd) {
    struct connection *c = &connections[fd];
    while (c->filled) {
        c->request[c->filled] = 0;
        char *end = strstr(c->request, "\r\n\r\n");
        if (!end) return;
        size_t head = end + 4 - c->request, length = 0;
        char *field = strcasestr(c->request, "\r\ncontent-length:");
        if (field && field < end) length = strtoul(field + 17, NULL, 10);
        if (c->filled < head + length) return;
        char saved = c->request[head + length];
        c->request[head + length] = 0;
        serve(fd, c->request, c->request + head);
        c->request[head + length] = saved;
        c->filled -= head + length;
        memmove(c->request, c->request + head + length, c->filled);
    }
}

static void receive(int fd) {
    struct connection *c = &connections[fd];
    ssize_t count = recv(fd, c->request + c->filled, MAX_REQUEST - 1 - c->filled, 0);
    if (count > 0) {
        c->filled += count;
        parse(fd);
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        drop(fd);
    }
}

static void accept_all(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MAX_FDS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (!connections[fd].request) connections[fd].request = malloc(MAX_REQUEST);
        connections[fd].filled = 0;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
    }
}

static void tick(void) {
    for (int index = active_count - 1; index >= 0; index--) advance(active[index], burst);
}

static void listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096)) fail("listen");
    connections[fd].listening = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: stub_worker TOKENS TICK_MICROSECONDS BURST PORT...\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    tokens = atoi(argv[1]);
    long tick_microseconds = atol(argv[2]);
    burst = atoi(argv[3]);
    render_answer();
    epoll_fd = epoll_create1(0);
    for (int index = 4; index < argc; index++) listen_on(atoi(argv[index]));
    int timer = -1;
    if (tick_microseconds) {
        timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        struct timespec period = {tick_microseconds / 1000000, tick_microseconds % 1000000 * 1000};
        struct itimerspec spec = {.it_interval = period, .it_value = period};
        timerfd_settime(timer, 0, &spec, NULL);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = timer};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event)) fail("epoll_ctl");
    }
    for (;;) {
        struct epoll_event ready[512];
        int count = epoll_wait(epoll_fd, ready, 512, tick_microseconds || !active_count ? -1 : 0);
        int due = !tick_microseconds;
        for (int index = 0; index < count; index++) {
            int fd = ready[index].data.fd;
            if (fd == timer) {
                unsigned long long expirations;
                if (read(timer, &expirations, sizeof expirations) > 0) due = 1;
            } else if (connections[fd].listening) {
                accept_all(fd);
            } else {
                receive(fd);
            }
        }
        if (due) tick();
    }
}
