// SPDX-License-Identifier: Apache-2.0
// The hash map: open addressing, keys copied into an arena, SipHash-1-3 with a key per map, since
// names come from strangers.
#include "base/text.h"
#include <string.h>
#include <sys/random.h>

typedef struct slot {
    const char *key; // NULL: free
    size_t len;
    uint64_t hash;
    int64_t value;
} slot;

struct lt_map {
    slot *slots;
    uint64_t n_slots; // a power of two
    int64_t n;
    uint64_t secret[2];
    lt_arena *keys;
};

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static uint64_t hash_of(const lt_map *map, const char *key, size_t len)
{
    const uint64_t k0 = map->secret[0], k1 = map->secret[1];
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575U, k1 ^ 0x646f72616e646f6dU, k0 ^ 0x6c7967656e657261U,
                     k1 ^ 0x7465646279746573U};
    size_t at = 0;
    for (; len - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, key + at, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = 0;
    if (len > at)
        memcpy(&last, key + at, len - at);
    last |= (uint64_t)len << 56;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

lt_status lt_map_create(lt_map **out)
{
    void *ptr;
    LT_TRY(lt_mem_alloc(&ptr, sizeof(lt_map), "a map"));
    lt_map *map = ptr;
    const lt_status st = lt_arena_create(&map->keys, "the keys of a map");
    if (st != LT_OK) {
        lt_mem_free(map);
        return st;
    }
    // Without random bytes the address has to do: the secret never changes a result, only who can
    // slow us down.
    if (getrandom(map->secret, sizeof map->secret, GRND_NONBLOCK) != (ssize_t)sizeof map->secret)
        map->secret[0] = (uint64_t)(uintptr_t)map;
    *out = map;
    return LT_OK;
}

void lt_map_destroy(lt_map *map)
{
    if (!map)
        return;
    lt_arena_destroy(map->keys);
    lt_mem_free(map->slots);
    lt_mem_free(map);
}

// The slot that holds the key, or the free one where it would go.
static slot *find(const lt_map *map, uint64_t hash, const char *key, size_t len)
{
    for (uint64_t i = hash & (map->n_slots - 1);; i = (i + 1) & (map->n_slots - 1)) {
        slot *s = &map->slots[i];
        if (!s->key ||
            (s->hash == hash && s->len == len && (len == 0 || memcmp(s->key, key, len) == 0)))
            return s;
    }
}

static lt_status grow(lt_map *map)
{
    const uint64_t n_slots = map->n_slots ? map->n_slots * 2 : 16;
    void *ptr;
    LT_TRY(lt_mem_alloc(&ptr, n_slots * sizeof(slot), "a map"));
    slot *old = map->slots;
    const uint64_t n_old = map->n_slots;
    map->slots = ptr;
    map->n_slots = n_slots;
    for (uint64_t i = 0; i < n_old; i++)
        if (old[i].key)
            *find(map, old[i].hash, old[i].key, old[i].len) = old[i];
    lt_mem_free(old);
    return LT_OK;
}

lt_status lt_map_put(lt_map *map, const void *key, size_t len, int64_t value)
{
    if ((uint64_t)map->n + 1 > map->n_slots / 3 * 2)
        LT_TRY(grow(map));
    const uint64_t hash = hash_of(map, key, len);
    slot *s = find(map, hash, key, len);
    if (!s->key) {
        char *copy;
        LT_TRY(lt_arena_text(map->keys, key, len, &copy));
        *s = (slot){.key = copy, .len = len, .hash = hash};
        map->n++;
    }
    s->value = value;
    return LT_OK;
}

bool lt_map_get(const lt_map *map, const void *key, size_t len, int64_t *value)
{
    if (map->n == 0)
        return false;
    const slot *s = find(map, hash_of(map, key, len), key, len);
    if (!s->key)
        return false;
    *value = s->value;
    return true;
}

lt_status lt_map_put_text(lt_map *map, const char *key, int64_t value)
{
    return lt_map_put(map, key, strlen(key), value);
}

bool lt_map_get_text(const lt_map *map, const char *key, int64_t *value)
{
    return lt_map_get(map, key, strlen(key), value);
}

int64_t lt_map_count(const lt_map *map)
{
    return map->n;
}
