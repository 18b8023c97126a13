/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HTTP for one question, GET /metrics, as far as who asks it needs: one client at a time, which has five seconds
 * for its request and five to take the answer, and one answer for each connection. It is the command's process
 * that does this, with the rights of who has started it; the daemon knows nothing of HTTP.
 */
#include "ctl/metrics.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/loop.h"
#include "ctl/ctl.h"

#define CLIENT_NS 5000000000ull
#define PAUSE_MS  500           /* when there are no descriptors */

/* ---- requests and answers ---- */

unsigned ctl_http_status(const char *request, size_t len)
{
	static const char get[] = "GET ", path[] = "/metrics";
	const char *end = memmem(request, len, "\n", 1), *word;

	if (memchr(request, '\0', len))
		return 400;
	if (!memmem(request, len, "\r\n\r\n", 4) && !memmem(request, len, "\n\n", 2))
		return len >= CTL_HTTP_MAX ? 431 : 0;
	if (end > request && end[-1] == '\r')
		end--;
	/* METHOD TARGET HTTP/1.x */
	word = memchr(request, ' ', (size_t)(end - request));
	if (!word || word == request || end - word < 10 || memcmp(end - 9, " HTTP/1.", 8) != 0 || end - 9 <= word)
		return 400;
	if ((size_t)(word + 1 - request) != sizeof(get) - 1 || memcmp(request, get, sizeof(get) - 1) != 0)
		return 405;
	request = word + 1;
	end -= 9;
	if ((size_t)(end - request) < sizeof(path) - 1 || memcmp(request, path, sizeof(path) - 1) != 0)
		return 404;
	request += sizeof(path) - 1;
	return request == end || *request == '?' ? 200 : 404;
}

static const char *http_reason(unsigned status)
{
	switch (status) {
	case 200: return "OK";
	case 400: return "Bad Request";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 408: return "Request Timeout";
	case 431: return "Request Header Fields Too Large";
	default:  return "Service Unavailable";
	}
}

/* false: the time is up, or there was an error. */
static bool wait_until(int fd, short events, uint64_t until_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = mono_ns();

	return now < until_ns && poll(&p, 1, (int)((until_ns - now) / 1000000u) + 1) > 0;
}

/* The status of the answer; 0: the client has gone. */
static unsigned read_request(int fd)
{
	uint64_t until = mono_ns() + CLIENT_NS;
	char text[CTL_HTTP_MAX];
	unsigned status = 0;
	size_t len = 0;

	while (!status) {
		ssize_t n;

		if (!wait_until(fd, POLLIN, until))
			return 408;
		n = recv(fd, text + len, sizeof(text) - len, MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return 0;
		len += (size_t)n;
		status = ctl_http_status(text, len);
	}
	return status;
}

static void send_all(int fd, const char *text, size_t len, uint64_t until_ns)
{
	while (len && wait_until(fd, POLLOUT, until_ns)) {
		ssize_t n = send(fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void send_answer(int fd, unsigned status, const char *body, size_t len)
{
	uint64_t until = mono_ns() + CLIENT_NS;
	char head[256];
	int n = snprintf(head, sizeof(head), "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
			 "Connection: close\r\n\r\n", status, http_reason(status),
			 status == 200 ? "application/openmetrics-text; version=1.0.0; charset=utf-8" :
			 "text/plain; charset=utf-8", len, status == 405 ? "Allow: GET\r\n" : "");

	send_all(fd, head, (size_t)n, until);
	send_all(fd, body, len, until);
}

/* What is mounted there now. */
static int print_now(const char *mountpoint, FILE *f, struct errbuf *eb)
{
	struct ctl_peer p;
	int status = ctl_peer_find(&p, mountpoint, eb);

	if (!status)
		status = ctl_metrics_print(&p, f, eb);
	ctl_peer_free(&p);
	return status;
}

static void serve_client(int fd, const char *mountpoint)
{
	struct errbuf eb = { "" };
	unsigned status = read_request(fd);
	char *text = NULL;
	size_t len = 0;
	FILE *f = status ? open_memstream(&text, &len) : NULL;

	if (!f)
		return;
	if (status == 200 && print_now(mountpoint, f, &eb)) {
		status = 503;           /* nothing was printed */
		fprintf(f, "%s\n", eb.text);
	} else if (status != 200) {
		fprintf(f, "%s: GET /metrics is what there is.\n", http_reason(status));
	}
	if (fclose(f) == 0)
		send_answer(fd, status, text, len);
	free(text);
}

/* ---- the socket ---- */

/* Of the signals' handler. */
static char served[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

static void on_end(int sig)
{
	unlink(served);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void catch_end(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], on_end);
}

/* One that was left by a process that was killed. 0: the place is free. */
static int remove_left(const struct sockaddr_un *un)
{
	struct stat st;
	int fd, rc = 0;

	if (lstat(un->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)un, sizeof(*un)) == 0)
		rc = -EADDRINUSE;
	else if (errno != ECONNREFUSED || unlink(un->sun_path) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* A descriptor, or -errno. */
static int listen_at(const struct sockaddr_un *un, mode_t mode)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;
	mode_t before;

	if (fd < 0)
		return -errno;
	/* There is no moment at which others can reach it. */
	before = umask(0777 & ~mode);
	rc = bind(fd, (const struct sockaddr *)un, sizeof(*un));
	if (rc < 0)
		rc = -errno;
	umask(before);
	if (!rc && listen(fd, 16) < 0) {
		rc = -errno;
		unlink(un->sun_path);
	}
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* Returns only when it cannot go on. */
static int serve_all(int fd, const char *mountpoint)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int client = poll(&p, 1, -1) < 0 ? -1 : accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client >= 0) {
			serve_client(client, mountpoint);
			close(client);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			poll(NULL, 0, PAUSE_MS);
		} else if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) {
			return -errno;
		}
	}
}

int ctl_metrics_serve(const struct ctl_peer *p, const char *path, mode_t mode, struct errbuf *eb)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int rc, fd;

	if (!*path || strlen(path) >= sizeof(un.sun_path))
		return err_set(eb, CTL_USAGE, "--listen: the name of a socket has 1 to %zu bytes, not %zu",
			       sizeof(un.sun_path) - 1, strlen(path));
	strcpy(un.sun_path, path);
	rc = remove_left(&un);
	if (rc == -EADDRINUSE)
		return err_set(eb, CTL_REFUSED, "--listen: another process listens at '%s'", path);
	fd = rc ? rc : listen_at(&un, mode);
	if (fd < 0)
		return err_set(eb, CTL_REFUSED, "--listen: cannot make a socket '%s': %s", path, strerror(-fd));
	strcpy(served, path);
	catch_end();
	rc = serve_all(fd, p->mountpoint);
	unlink(path);
	close(fd);
	return err_set(eb, CTL_GONE, "cannot serve '%s' any more: %s", path, strerror(-rc));
}
