// SPDX-License-Identifier: Apache-2.0
// Eight neighbouring numbers at a time: one 16-byte access in bf16, two in f32. What fast kernels
// are made of; numbers in between are floats.
#ifndef LT_OP_CUDA_EIGHT_CUH
#define LT_OP_CUDA_EIGHT_CUH

#include <initializer_list>

#include "op/cuda/common.cuh"

typedef __nv_bfloat16 lt_bf16;

/**
 * E neighbouring numbers as they lie in memory: eight, or four. `at` counts packs. The k of an
 * element is known when this is compiled.
 */
template <typename T, int E> struct lt_pack;
template <typename T> using lt_eight = lt_pack<T, 8>;

static __device__ inline float lt_half_of_pair(uint32_t pair, int k)
{
    return __uint_as_float(k % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
}

static __device__ inline uint32_t lt_pair_of(float low, float high)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(const uint32_t *)&both;
}

template <> struct lt_pack<lt_bf16, 8> {
    uint4 raw;
    __device__ void load(const void *from, int64_t at)
    {
        raw = ((const uint4 *)from)[at];
    }
    /** Of what nobody writes while the kernel runs: may be moved before stores. */
    __device__ void fetch(const void *from, int64_t at)
    {
        raw = __ldg((const uint4 *)from + at);
    }
    /** The same where it stands: not moved out of a loop, where it would hold registers. */
    __device__ void refetch(const void *from, int64_t at)
    {
        asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
                     : "l"((const uint4 *)from + at));
    }
    __device__ void store(void *to, int64_t at) const
    {
        ((uint4 *)to)[at] = raw;
    }
    /** The last look at it, and what nobody reads soon: first to leave the cache. */
    __device__ void load_last(const void *from, int64_t at)
    {
        raw = __ldcs((const uint4 *)from + at);
    }
    __device__ void store_away(void *to, int64_t at) const
    {
        __stcs((uint4 *)to + at, raw);
    }
    __device__ void clear()
    {
        raw = make_uint4(0, 0, 0, 0);
    }
    __device__ float operator[](int k) const
    {
        return lt_half_of_pair(k < 4 ? (k < 2 ? raw.x : raw.y) : (k < 6 ? raw.z : raw.w), k);
    }
    /** Narrowed to nearest even. */
    __device__ void set(const float (&v)[8])
    {
        raw = make_uint4(lt_pair_of(v[0], v[1]), lt_pair_of(v[2], v[3]), lt_pair_of(v[4], v[5]),
                         lt_pair_of(v[6], v[7]));
    }
};

template <> struct lt_pack<lt_bf16, 4> {
    uint2 raw;
    __device__ void load(const void *from, int64_t at)
    {
        raw = ((const uint2 *)from)[at];
    }
    __device__ void store(void *to, int64_t at) const
    {
        ((uint2 *)to)[at] = raw;
    }
    __device__ float operator[](int k) const
    {
        return lt_half_of_pair(k < 2 ? raw.x : raw.y, k);
    }
    __device__ void set(const float (&v)[4])
    {
        raw = make_uint2(lt_pair_of(v[0], v[1]), lt_pair_of(v[2], v[3]));
    }
};

template <> struct lt_pack<float, 4> {
    float4 raw;
    __device__ void load(const void *from, int64_t at)
    {
        raw = ((const float4 *)from)[at];
    }
    __device__ void refetch(const void *from, int64_t at)
    {
        asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(raw.x), "=f"(raw.y), "=f"(raw.z), "=f"(raw.w)
                     : "l"((const float4 *)from + at));
    }
    __device__ void store(void *to, int64_t at) const
    {
        ((float4 *)to)[at] = raw;
    }
    __device__ void clear()
    {
        raw = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
    __device__ float operator[](int k) const
    {
        return k < 2 ? (k == 0 ? raw.x : raw.y) : (k == 2 ? raw.z : raw.w);
    }
    __device__ void set(const float (&v)[4])
    {
        raw = make_float4(v[0], v[1], v[2], v[3]);
    }
};

template <> struct lt_pack<float, 8> {
    lt_pack<float, 4> low, high;
    __device__ void load(const void *from, int64_t at)
    {
        low.load(from, 2 * at);
        high.load(from, 2 * at + 1);
    }
    __device__ void fetch(const void *from, int64_t at)
    {
        low.raw = __ldg((const float4 *)from + 2 * at);
        high.raw = __ldg((const float4 *)from + 2 * at + 1);
    }
    __device__ void refetch(const void *from, int64_t at)
    {
        low.refetch(from, 2 * at);
        high.refetch(from, 2 * at + 1);
    }
    __device__ void store(void *to, int64_t at) const
    {
        low.store(to, 2 * at);
        high.store(to, 2 * at + 1);
    }
    __device__ void load_last(const void *from, int64_t at)
    {
        low.raw = __ldcs((const float4 *)from + 2 * at);
        high.raw = __ldcs((const float4 *)from + 2 * at + 1);
    }
    __device__ void store_away(void *to, int64_t at) const
    {
        __stcs((float4 *)to + 2 * at, low.raw);
        __stcs((float4 *)to + 2 * at + 1, high.raw);
    }
    __device__ void clear()
    {
        low.clear();
        high.clear();
    }
    __device__ float operator[](int k) const
    {
        return k < 4 ? low[k] : high[k - 4];
    }
    __device__ void set(const float (&v)[8])
    {
        low.raw = make_float4(v[0], v[1], v[2], v[3]);
        high.raw = make_float4(v[4], v[5], v[6], v[7]);
    }
};

/** A number by itself, where rows are no whole packs. */
template <typename T> struct lt_pack<T, 1> {
    T raw;
    __device__ void load(const void *from, int64_t at)
    {
        raw = ((const T *)from)[at];
    }
    __device__ void store(void *to, int64_t at) const
    {
        ((T *)to)[at] = raw;
    }
    __device__ float operator[](int) const
    {
        return (float)raw;
    }
    __device__ void set(const float (&v)[1])
    {
        raw = (T)v[0];
    }
};

/** Where packs go: overwrites or adds; nothing happens where nobody asks. */
struct lt_sink {
    void *data;
    bool add;
    template <typename T, int E> __device__ void put(int64_t at, const float (&v)[E]) const
    {
        if (!data)
            return;
        lt_pack<T, E> p;
        if (add) {
            float sum[E];
            p.load(data, at);
#pragma unroll
            for (int k = 0; k < E; k++)
                sum[k] = p[k] + v[k];
            p.set(sum);
        } else {
            p.set(v);
        }
        p.store(data, at);
    }
};

static inline lt_sink lt_sink_of(lt_writer w)
{
    return {w.data, w.add};
}

/** All of them may be read by eights; NULL may. */
static inline bool lt_aligned(std::initializer_list<const void *> pointers)
{
    for (const void *p : pointers)
        if ((uintptr_t)p % 16 != 0)
            return false;
    return true;
}

/** A gradient that is given has that dtype. */
static inline bool lt_has_dtype(const lt_writer &w, lt_dtype dtype)
{
    return !w.data || w.bf16 == (dtype == LT_BF16);
}

/**
 * A block for rows of eights, where every row is by itself: x covers a row, as many whole warps as
 * it has work for; y rows fill the block.
 */
static inline dim3 lt_row_block(int64_t eights)
{
    const unsigned x = (unsigned)lt_min_i64(lt_round_up(eights, 32), LT_BLOCK);
    return dim3(x, LT_BLOCK / x);
}

// ---- rows in the registers of a team of warps

/**
 * A row of `eights` eights lies in the registers of WARPS warps, N eights a thread. Eight i of a
 * thread is number lane + i * size of the row.
 */
template <int N, int WARPS> struct lt_team {
    static constexpr int size = 32 * WARPS;
    /** Of a block: a team with several warps has one for itself. */
    static constexpr int threads = WARPS == 1 ? LT_BLOCK : size;
    static constexpr int per_block = threads / size;

    static __device__ int lane()
    {
        return (int)threadIdx.x % size;
    }
    /** Teams count through the grid. */
    static __device__ int64_t number()
    {
        return (int64_t)blockIdx.x * per_block + threadIdx.x / size;
    }
    template <typename T>
    static __device__ void load(lt_eight<T> (&row)[N], const void *from, int64_t first, int eights)
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int at = lane() + i * size;
            if (at < eights)
                row[i].load(from, first + at);
            else
                row[i].clear();
        }
    }
    /** Of a vector that all rows share: from the cache, for every row anew. */
    template <typename T>
    static __device__ void refetch(lt_eight<T> (&row)[N], const void *from, int eights)
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int at = lane() + i * size;
            row[i].refetch(from, at < eights ? at : 0); // a number there meets zeros
        }
    }
    /**
     * Sums over the team, the same in all of its threads. `turn` alternates between sums that
     * follow each other, so that one barrier is enough.
     */
    template <int SUMS> static __device__ void sum(float (&v)[SUMS], int turn)
    {
        __shared__ float part[2][WARPS][SUMS];
#pragma unroll
        for (int s = 0; s < SUMS; s++)
            v[s] = lt_warp_sum(v[s]);
        if (WARPS == 1)
            return;
        if (threadIdx.x % 32 == 0)
            for (int s = 0; s < SUMS; s++)
                part[turn % 2][threadIdx.x / 32][s] = v[s];
        __syncthreads();
#pragma unroll
        for (int s = 0; s < SUMS; s++) {
            v[s] = part[turn % 2][0][s];
            for (int w = 1; w < WARPS; w++)
                v[s] += part[turn % 2][w][s];
        }
    }
};

/** The instance of a kernel over rows for teams of one size. */
template <typename A> struct lt_row_kernel {
    int eights;             // the widest row
    int threads, per_block; // of a block; teams in it
    int parts;              // backward: into how many parts rows are cut, at most
    void (*run)(A);
};

/** Parts fill that many processors; not asked of the device, so that sums are the same on all. */
enum { LT_ROW_SMS = 132 };

/** The first kernel of a table that takes rows of so many eights; NULL when none does. */
template <typename A, int N>
static const lt_row_kernel<A> *lt_row_kernel_for(const lt_row_kernel<A> (&kernels)[N],
                                                 int64_t eights)
{
    for (const lt_row_kernel<A> &k : kernels)
        if (eights <= k.eights)
            return &k;
    return NULL;
}
#endif
