/* The job's secret, and the proof of knowing it. A connection between two processes of a job begins with it, whoever
 * listens (the store, the TCP engine, the watcher, rpc):
 *
 *   client  HELLO      what it came for, whether it knows a secret, its nonce
 *   server  CHALLENGE  whether it knows one, its nonce, HMAC(secret, "server", what for, both nonces)
 *   client  PROOF      HMAC(secret, "client", what for, both nonces)
 *
 * So each side learns that the other one knows the secret, which itself never travels, and neither can be answered with
 * what was said before. Where no side has a secret, the CHALLENGE ends it. What follows on the connection is neither
 * encrypted nor signed. */
#ifndef TPI_DIST_SECRET_H
#define TPI_DIST_SECRET_H
#include <taper/base.h>
#include "base/sha256.h"

typedef struct tpi_key { /* what a secret becomes */
    bool known;
    uint8_t bytes[TPI_SHA256_BYTES];
} tpi_key;

enum { TPI_SECRET_BYTES = 32, TPI_LEAST_SECRET = 16 /* characters of one that is given */ };

/* The job's: what tpi_job_key_set was given, TAPER_JOB_SECRET, what is in the file that TAPER_JOB_SECRET_FILE names, or
 * what the ranks of a PMIx session on one machine share; not known where there is none of these. False, with an error:
 * what is given cannot be used. */
bool tpi_job_key(tpi_key *key);
bool tpi_random_bytes(void *bytes, size_t n); /* the system's; false with an error */
uint64_t tpi_random_number(void);             /* of these; it tells connections apart, and is no secret */
/* A job whose ranks exchange a secret by a way of their own (MPI) has that key until it ends. NULL: it has ended. */
void tpi_job_key_set(const tpi_key *key);
bool tpi_key_new(tpi_key *key); /* of a new secret, 256 bits from the system; false with an error */
/* The key of processes that reach a file of the owner's alone: the first that comes makes it. False with an error. */
bool tpi_key_from_file(const char *path, tpi_key *key);

typedef enum tpi_purpose { TPI_FOR_STORE = 1, TPI_FOR_ENGINE, TPI_FOR_WATCHER, TPI_FOR_RPC } tpi_purpose;
/* NO_PEER: it hung up, said nothing in time, or is something else. Those after it do not get better by trying again. */
typedef enum tpi_proof_result {
    TPI_PROVEN = 1,
    TPI_UNFINISHED = 0,
    TPI_NO_PEER = -1,
    TPI_OTHER_SECRET = -2,
    TPI_NO_SECRET_HERE = -3,
    TPI_NO_SECRET_THERE = -4
} tpi_proof_result;
const char *tpi_proof_why(tpi_proof_result result);

/* The side that listens. A step takes what has come, and never waits: UNFINISHED until it is settled. It takes no byte
 * of what follows. */
typedef struct tpi_proof {
    tpi_key key;
    tpi_purpose purpose;
    bool challenged;
    size_t have;
    uint8_t in[64];
    uint8_t expected[TPI_SHA256_BYTES];
} tpi_proof;
tpi_proof_result tpi_proof_step(tpi_proof *proof, int fd);
/* Both sides, until the deadline. */
tpi_proof_result tpi_prove(int fd, tpi_purpose purpose, const tpi_key *key, double deadline);
tpi_proof_result tpi_prove_as_server(int fd, tpi_purpose purpose, const tpi_key *key, double deadline);
#endif
