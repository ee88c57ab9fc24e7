/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mutual authentication by a shared secret. Both sides send their hello at once, and their proof as
 * soon as they have read the peer's hello. A side is done when its proof is sent and the peer's is
 * correct. Each step checks the received bytes again, so a failed handshake stays failed.
 */
#include "auth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "error.h"
#include "fd.h"
#include "log.h"

#ifdef RCMI_HAVE_CRYPTO
#include <dlfcn.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdio.h>
#endif

enum { TOTAL = RCMI_AUTH_TOTAL, MAGIC = RCMI_AUTH_ROLE, ROLE_AT = MAGIC, NONCE_AT = ROLE_AT + 1 };

static const char magic[MAGIC + 1] = "RCMAUTH1";

rcm_status rcmi_random(void *buf, size_t len) {
    size_t have = 0;
    while (have < len) {
        ssize_t got = getrandom((char *)buf + have, len - have, 0);
        if (got < 0 && errno != EINTR)
            return rcmi_fail(RCM_ERR_SYSTEM, errno, "cannot get %zu random bytes", len);
        have += got > 0 ? (size_t)got : 0;
    }
    return RCM_OK;
}

#ifdef RCMI_HAVE_CRYPTO

/* Loaded when the first secret is used: linking it would cost each process without a secret 1 ms
 * and half a megabyte of relocated pages. */
#ifdef OPENSSL_SHLIB_VERSION
#define TEXT_OF(number) #number
#define VERSION(number) TEXT_OF(number)
#define CRYPTO_LIBRARY  "libcrypto.so." VERSION(OPENSSL_SHLIB_VERSION)
#else
#define CRYPTO_LIBRARY "libcrypto.so." SHLIB_VERSION_NUMBER
#endif

/* The version of the headers, or another installed one (for example with a wheel): the three
 * functions are the same since 1.1. */
static const char *const crypto_libraries[] = {CRYPTO_LIBRARY, "libcrypto.so.3",
                                               "libcrypto.so.1.1"};

static struct {
    __typeof__(HMAC) *hmac;
    __typeof__(EVP_sha256) *sha256;
    __typeof__(CRYPTO_memcmp) *compare;
    char why_not[200]; /* empty: loaded */
} crypto;

static void crypto_fails(void) {
    const char *text = dlerror();
    snprintf(crypto.why_not, sizeof crypto.why_not, "%s", text ? text : CRYPTO_LIBRARY);
}

/* libcrypto has its own exit handlers and does not support unloading. */
static void *crypto_open(void) {
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof crypto_libraries / sizeof crypto_libraries[0]; i++) {
        library = dlopen(crypto_libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library)
            crypto.why_not[0] = '\0';
        else if (i == 0)
            crypto_fails();
    }
    return library;
}

static void crypto_load(void) {
    static const struct {
        const char *name;
        void *slot;
    } names[] = {
        {"HMAC", &crypto.hmac}, {"EVP_sha256", &crypto.sha256}, {"CRYPTO_memcmp", &crypto.compare}};
    void *library = crypto_open();
    for (size_t i = 0; library && i < sizeof names / sizeof names[0]; i++) {
        void *symbol = dlsym(library, names[i].name);
        memcpy(names[i].slot, &symbol, sizeof symbol);
        if (!symbol) {
            crypto_fails();
            library = NULL;
        }
    }
}

static rcm_status auth_supported(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, crypto_load);
    if (!crypto.why_not[0])
        return RCM_OK;
    return rcmi_fail(
        RCM_ERR_UNSUPPORTED, 0,
        "a secret is set, but libcrypto, which computes the proof, cannot be loaded: %s",
        crypto.why_not);
}

/* HMAC(secret, label || role || nonce || the other's nonce). The role and first nonce are those in
 * the hello of the proving side. */
rcm_status rcmi_auth_proof(const char *secret, const uint8_t *hello, const uint8_t *other,
                           uint8_t ret_mac[RCMI_AUTH_MAC]) {
    static const char label[] = "ringcomm-auth-1";
    enum { LABEL = sizeof label - 1, TEXT = LABEL + 1 + 2 * RCMI_AUTH_NONCE };
    uint8_t text[TEXT];
    unsigned int len = RCMI_AUTH_MAC;
    memcpy(text, label, LABEL);
    memcpy(text + LABEL, hello + ROLE_AT, 1 + RCMI_AUTH_NONCE);
    memcpy(text + LABEL + 1 + RCMI_AUTH_NONCE, other + NONCE_AT, RCMI_AUTH_NONCE);
    size_t secret_len = strlen(secret);
    if (!crypto.hmac(crypto.sha256(), secret, (int)secret_len, text, sizeof text, ret_mac, &len) ||
        len != RCMI_AUTH_MAC)
        return rcmi_fail(RCM_ERR_INTERNAL, 0, "libcrypto cannot compute HMAC-SHA256");
    return RCM_OK;
}

static bool mac_equal(const uint8_t *a, const uint8_t *b) {
    return crypto.compare(a, b, RCMI_AUTH_MAC) == 0; /* constant time */
}

#else

static rcm_status auth_supported(void) {
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "a secret is set, but this libringcomm was built without libcrypto and "
                     "cannot prove it");
}

rcm_status rcmi_auth_proof(const char *secret, const uint8_t *hello, const uint8_t *other,
                           uint8_t ret_mac[RCMI_AUTH_MAC]) {
    (void)secret, (void)hello, (void)other, (void)ret_mac;
    return auth_supported();
}

static bool mac_equal(const uint8_t *a, const uint8_t *b) {
    (void)a, (void)b;
    return false;
}

#endif

rcm_status rcmi_auth_start_with(struct rcmi_auth *auth, const char *secret, bool initiator,
                                const uint8_t nonce[RCMI_AUTH_NONCE]) {
    memset(auth, 0, sizeof *auth);
    auth->secret = secret;
    auth->initiator = initiator;
    if (!secret)
        return RCM_OK;
    rcm_status status = auth_supported();
    if (status != RCM_OK)
        return status;
    if (!*secret)
        return rcmi_fail(RCM_ERR_INVALID, 0, "the secret is empty");
    memcpy(auth->out, magic, MAGIC);
    auth->out[ROLE_AT] = initiator ? 'I' : 'A';
    memcpy(auth->out + NONCE_AT, nonce, RCMI_AUTH_NONCE);
    auth->out_ready = RCMI_AUTH_HELLO;
    return RCM_OK;
}

rcm_status rcmi_auth_start(struct rcmi_auth *auth, const char *secret, bool initiator) {
    uint8_t nonce[RCMI_AUTH_NONCE] = {0};
    rcm_status status = secret ? rcmi_random(nonce, sizeof nonce) : RCM_OK;
    memset(auth, 0, sizeof *auth);
    return status == RCM_OK ? rcmi_auth_start_with(auth, secret, initiator, nonce) : status;
}

bool rcmi_auth_wants_write(const struct rcmi_auth *auth) {
    return auth->out_done < auth->out_ready;
}

static rcm_status auth_send(struct rcmi_auth *auth, int fd) {
    while (auth->out_done < auth->out_ready) {
        size_t done = 0;
        rcm_status status =
            rcmi_fd_write(fd, auth->out + auth->out_done, auth->out_ready - auth->out_done, &done);
        if (status != RCM_OK)
            return status;
        auth->out_done += done;
    }
    return RCM_OK;
}

/* Fails at the first wrong byte, not only once all bytes are there: an unauthenticated peer may
 * send few. */
static rcm_status auth_check_hello(const struct rcmi_auth *auth) {
    size_t have = auth->in_done < MAGIC ? auth->in_done : MAGIC;
    if (memcmp(auth->in, magic, have) != 0)
        return rcmi_fail(RCM_ERR_AUTH, 0,
                         "the peer did not start to prove the secret. Is its secret set?");
    char expected = auth->initiator ? 'A' : 'I';
    if (auth->in_done > ROLE_AT && auth->in[ROLE_AT] != expected)
        return rcmi_fail(RCM_ERR_AUTH, 0, "the peer uses this side's role in the proof");
    return RCM_OK;
}

static rcm_status auth_add_proof(struct rcmi_auth *auth) {
    if (auth->in_done < RCMI_AUTH_HELLO || auth->out_ready == TOTAL)
        return RCM_OK;
    rcm_status status =
        rcmi_auth_proof(auth->secret, auth->out, auth->in, auth->out + RCMI_AUTH_HELLO);
    if (status == RCM_OK)
        auth->out_ready = TOTAL;
    return status;
}

static rcm_status auth_receive(struct rcmi_auth *auth, int fd) {
    while (auth->in_done < TOTAL) {
        size_t got = 0;
        rcm_status status = rcmi_fd_read(fd, auth->in + auth->in_done, TOTAL - auth->in_done, &got);
        if (status == RCM_ERR_PEER)
            return rcmi_fail_context("the peer closed the connection before it proved the secret");
        if (status != RCM_OK)
            return status;
        auth->in_done += got;
        status = auth_check_hello(auth);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

static rcm_status auth_check_proof(const struct rcmi_auth *auth) {
    uint8_t expected[RCMI_AUTH_MAC];
    rcm_status status = rcmi_auth_proof(auth->secret, auth->in, auth->out, expected);
    if (status != RCM_OK)
        return status;
    if (!mac_equal(expected, auth->in + RCMI_AUTH_HELLO))
        return rcmi_fail(RCM_ERR_AUTH, 0, "the peer has a different secret");
    return RCM_OK;
}

rcm_status rcmi_auth_step(struct rcmi_auth *auth, int fd) {
    if (!auth->secret)
        return RCM_OK;
    rcm_status failed = auth_check_hello(auth);
    if (failed != RCM_OK)
        return failed;
    rcm_status sent = auth_send(auth, fd);
    if (sent < 0)
        return sent;
    rcm_status received = auth_receive(auth, fd);
    if (received < 0)
        return received;
    /* Sends this side's proof before judging the peer's, so that each side can distinguish a wrong
     * secret from a lost connection. */
    rcm_status proved = auth_add_proof(auth);
    if (proved != RCM_OK)
        return proved;
    sent = auth_send(auth, fd);
    if (sent < 0)
        return sent;
    if (auth->in_done == TOTAL) {
        proved = auth_check_proof(auth);
        if (proved != RCM_OK)
            return proved;
    }
    return received == RCM_OK && sent == RCM_OK ? RCM_OK : RCM_AGAIN;
}

/* ---- The secret ---------------------------------------------------------------------------- */

enum { SECRET_FILE_MAX = 4096 };

static rcm_status secret_copy(const char *text, size_t len, const char *origin, char **ret_secret) {
    if (len == 0) /* not "no secret": the user expects protection */
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s is set but the secret is empty", origin);
    if (memchr(text, '\0', len))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s contains a zero byte", origin);
    char *copy = strndup(text, len);
    if (!copy)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "cannot copy %s", origin);
    *ret_secret = copy;
    return RCM_OK;
}

/* Reads up to len bytes of a file; -1 with errno. */
static ssize_t file_read(int fd, char *buf, size_t len) {
    size_t have = 0;
    while (have < len) {
        ssize_t got = read(fd, buf + have, len - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static rcm_status secret_from_file(const char *path, char **ret_secret) {
    char text[SECRET_FILE_MAX + 1];
    struct stat info;
    int fd = rcmi_fd_high(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t len = fd >= 0 ? file_read(fd, text, sizeof text) : -1;
    if (len < 0) {
        rcm_status status =
            rcmi_fail(RCM_ERR_CONFIG, errno, "cannot read RINGCOMM_SECRET_FILE=%s", path);
        rcmi_fd_close(&fd);
        return status;
    }
    if (fstat(fd, &info) == 0 && (info.st_mode & S_IROTH))
        rcmi_log(RCMI_LOG_WARN, "RINGCOMM_SECRET_FILE=%s is readable by every user", path);
    rcmi_fd_close(&fd);
    if (len > SECRET_FILE_MAX)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_SECRET_FILE=%s is longer than %d bytes", path,
                         SECRET_FILE_MAX);
    if (len > 0 && text[len - 1] == '\n')
        len--;
    return secret_copy(text, (size_t)len, "RINGCOMM_SECRET_FILE", ret_secret);
}

rcm_status rcmi_secret(char **ret_secret) {
    const char *text = getenv("RINGCOMM_SECRET");
    const char *path = getenv("RINGCOMM_SECRET_FILE");
    if (text && path)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "RINGCOMM_SECRET and RINGCOMM_SECRET_FILE=%s are both set", path);
    if (text)
        return secret_copy(text, strlen(text), "RINGCOMM_SECRET", ret_secret);
    if (path)
        return secret_from_file(path, ret_secret);
    *ret_secret = NULL;
    return RCM_OK;
}
