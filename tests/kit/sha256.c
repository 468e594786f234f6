// SPDX-License-Identifier: Apache-2.0
// SHA-256 in its plain form.
#include "tests/kit/sha256.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Hundreds of megabytes go through here: without the sanitizers' checks, which cost tenfold.
#define QUICK __attribute__((no_sanitize("address", "undefined", "thread")))
#define TURN(v, n) ((v) >> (n) | (v) << (32 - (n)))

QUICK static void block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int i = 16; i < 64; i++) {
        const uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = (TURN(y, 17) ^ TURN(y, 19) ^ y >> 10) + w[i - 7] +
               (TURN(x, 7) ^ TURN(x, 18) ^ x >> 3) + w[i - 16];
    }
    for (int i = 0; i < 8; i++)
        s[i] = h[i];
    // The eight words move on by one a round: word k of round i is s[(k - i) & 7].
    for (unsigned i = 0; i < 64; i++) {
        const uint32_t a = s[(0 - i) & 7], b = s[(1 - i) & 7], c = s[(2 - i) & 7];
        const uint32_t e = s[(4 - i) & 7], f = s[(5 - i) & 7], g = s[(6 - i) & 7];
        const uint32_t t = s[(7 - i) & 7] + (TURN(e, 6) ^ TURN(e, 11) ^ TURN(e, 25)) +
                           ((e & f) ^ (~e & g)) + rounds[i] + w[i];
        const uint32_t u = (TURN(a, 2) ^ TURN(a, 13) ^ TURN(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        s[(3 - i) & 7] += t;
        s[(7 - i) & 7] = t + u;
    }
    for (int i = 0; i < 8; i++)
        h[i] += s[i];
}

lt_sha256_text lt_sha256(const void *bytes, size_t len)
{
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *p = bytes;
    uint8_t tail[128] = {0};
    size_t left = len;
    for (; left >= 64; left -= 64, p += 64)
        block(h, p);
    if (left > 0)
        memcpy(tail, p, left);
    tail[left] = 0x80;
    const size_t end = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++)
        tail[end - 1 - (size_t)i] = (uint8_t)((uint64_t)len * 8 >> 8 * i);
    for (size_t i = 0; i < end; i += 64)
        block(h, tail + i);
    lt_sha256_text out;
    for (size_t i = 0; i < 8; i++)
        (void)snprintf(out.s + 8 * i, 9, "%08x", h[i]);
    return out;
}
