// SPDX-License-Identifier: Apache-2.0
// Video files through FFmpeg's libraries (LATHE_FFMPEG): the first video stream, decoded from its
// start, frames by their running number.
#include "data/video/file.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>

#include "data/image/native.h"

// Limits on what a stranger's file may ask for.
enum { MAX_STREAMS = 1000, MAX_DECODED = 1 << 22 };

typedef struct reader {
    const char *path;
    AVFormatContext *format;
    AVCodecContext *codec;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *scale;
    int stream;
} reader;

static lt_status failed(const reader *r, const char *what, int code)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    (void)av_strerror(code, text, sizeof text);
    return LT_FAIL(code == AVERROR(ENOENT)   ? LT_ERR_NOT_FOUND
                   : code == AVERROR(ENOMEM) ? LT_ERR_MEMORY
                                             : LT_ERR_FORMAT,
                   "%s: %s: %s", r->path, what, text);
}

static void close_reader(reader *r)
{
    sws_freeContext(r->scale);
    av_frame_free(&r->frame);
    av_packet_free(&r->packet);
    avcodec_free_context(&r->codec);
    avformat_close_input(&r->format);
}

static lt_status find_stream(reader *r)
{
    int code = avformat_open_input(&r->format, r->path, NULL, NULL);
    if (code < 0)
        return failed(r, "cannot open this video", code);
    if (r->format->nb_streams > MAX_STREAMS)
        return LT_FAIL(LT_ERR_FORMAT, "%s: it has %u streams, more than %d", r->path,
                       r->format->nb_streams, MAX_STREAMS);
    code = avformat_find_stream_info(r->format, NULL);
    if (code < 0)
        return failed(r, "cannot find its streams", code);
    for (unsigned i = 0; i < r->format->nb_streams; i++) {
        if (r->format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO) {
            r->stream = (int)i;
            return LT_OK;
        }
    }
    return LT_FAIL(LT_ERR_FORMAT, "%s: there is no video in it", r->path);
}

static const AVStream *stream_of(const reader *r)
{
    return r->format->streams[r->stream];
}

static lt_status check_size(const reader *r, int64_t h, int64_t w)
{
    if (h < 1 || w < 1 || h > INT32_MAX || w > INT32_MAX || h * w > LT_IMAGE_MAX_PIXELS)
        return LT_FAIL(LT_ERR_FORMAT, "%s: frames of %lld x %lld pixels are out of range", r->path,
                       (long long)w, (long long)h);
    return LT_OK;
}

static lt_status open_codec(reader *r)
{
    const AVCodecParameters *p = stream_of(r)->codecpar;
    const AVCodec *codec = avcodec_find_decoder(p->codec_id);
    if (codec == NULL)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: FFmpeg has no decoder for its %s video", r->path,
                       avcodec_get_name(p->codec_id));
    LT_TRY(check_size(r, p->height, p->width));
    r->codec = avcodec_alloc_context3(codec);
    r->packet = av_packet_alloc();
    r->frame = av_frame_alloc();
    if (r->codec == NULL || r->packet == NULL || r->frame == NULL)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: a video's decoder");
    int code = avcodec_parameters_to_context(r->codec, p);
    if (code < 0)
        return failed(r, "its parameters cannot be used", code);
    r->codec->thread_count = 1; // several videos are decoded at once
    code = avcodec_open2(r->codec, codec, NULL);
    return code < 0 ? failed(r, "its decoder cannot be opened", code) : LT_OK;
}

lt_status lt_video_file_probe(const char *path, lt_video_info *out)
{
    reader r = {.path = path};
    av_log_set_level(AV_LOG_QUIET);
    lt_status st = find_stream(&r);
    if (st == LT_OK)
        st = check_size(&r, stream_of(&r)->codecpar->height, stream_of(&r)->codecpar->width);
    if (st == LT_OK) {
        const AVStream *s = stream_of(&r);
        const double rate = s->avg_frame_rate.num > 0 ? av_q2d(s->avg_frame_rate) : 0.0;
        double seconds = s->duration != AV_NOPTS_VALUE ? (double)s->duration * av_q2d(s->time_base)
                         : r.format->duration != AV_NOPTS_VALUE
                             ? (double)r.format->duration / AV_TIME_BASE
                             : 0.0;
        *out = (lt_video_info){.n_frames = lt_max_i64(0, s->nb_frames),
                               .seconds = seconds > 0 ? seconds : 0.0,
                               .fps = rate > 0 ? rate : 1.0,
                               .h = s->codecpar->height,
                               .w = s->codecpar->width};
    }
    close_reader(&r);
    return st;
}

// ---------------------------------------------------------------- frames

/** Which frames are wanted, and who gets them. */
typedef struct wish {
    const int64_t *numbers;
    int64_t n, at, decoded; // at: of numbers; decoded: frames so far
    const lt_image_budget *budget;
    lt_frame_fn fn;
    void *ctx;
} wish;

/** The frame as RGB, by FFmpeg's converter as PyAV sets it up. */
static lt_status to_rgb(reader *r, lt_image *out)
{
    const AVFrame *f = r->frame;
    void *px = NULL;
    LT_TRY(check_size(r, f->height, f->width));
    r->scale =
        sws_getCachedContext(r->scale, f->width, f->height, (enum AVPixelFormat)f->format, f->width,
                             f->height, AV_PIX_FMT_RGB24, SWS_BILINEAR, NULL, NULL, NULL);
    if (r->scale == NULL)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: its colours cannot be converted", r->path);
    // Converters for x86 leave the last columns out where rows are no multiple of their vectors.
    const int64_t stride = lt_round_up(f->width, 32) * 3, row = (int64_t)f->width * 3;
    LT_TRY(lt_mem_alloc(&px, (size_t)(f->height * stride) + 64, "a video's frame"));
    *out = (lt_image){.px = px, .h = f->height, .w = f->width};
    uint8_t *const planes[] = {px, NULL, NULL, NULL};
    const int strides[] = {lt_int(stride), 0, 0, 0};
    const int rows = sws_scale(r->scale, (const uint8_t *const *)f->data, f->linesize, 0, f->height,
                               planes, strides);
    if (rows != f->height)
        return LT_FAIL(LT_ERR_FORMAT, "%s: a frame cannot be converted", r->path);
    for (int64_t y = 1; y < f->height; y++)
        memmove(out->px + y * row, out->px + y * stride, (size_t)row);
    return LT_OK;
}

/** Hand a decoded frame out, as often as it is wanted. */
static lt_status give(reader *r, wish *w)
{
    while (w->at < w->n && w->numbers[w->at] == w->decoded) {
        lt_image image = {0};
        lt_status st = to_rgb(r, &image);
        if (st == LT_OK)
            st = lt_image_fit(&image, w->budget, r->path);
        if (st == LT_OK)
            st = w->fn(w->ctx, &image);
        lt_image_deinit(&image);
        LT_TRY(st);
        w->at++;
    }
    return ++w->decoded <= MAX_DECODED
               ? LT_OK
               : LT_FAIL(LT_ERR_FORMAT, "%s: more than %d frames", r->path, MAX_DECODED);
}

static lt_status drain(reader *r, wish *w)
{
    while (w->at < w->n) {
        const int code = avcodec_receive_frame(r->codec, r->frame);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
            break;
        if (code < 0)
            return failed(r, "a frame cannot be decoded", code);
        LT_TRY(give(r, w));
    }
    return LT_OK;
}

static lt_status read_all(reader *r, wish *w)
{
    while (w->at < w->n) {
        const int code = av_read_frame(r->format, r->packet);
        if (code < 0 && code != AVERROR_EOF)
            return failed(r, "it cannot be read to its end", code);
        const bool end = code == AVERROR_EOF;
        int sent = 0;
        if (end || r->packet->stream_index == r->stream)
            sent = avcodec_send_packet(r->codec, end ? NULL : r->packet);
        av_packet_unref(r->packet);
        if (sent < 0 && sent != AVERROR_EOF)
            return failed(r, "a frame cannot be decoded", sent);
        LT_TRY(drain(r, w));
        if (end)
            break;
    }
    return LT_OK;
}

lt_status lt_video_file_read(const char *path, const int64_t *numbers, int64_t n,
                             const lt_image_budget *budget, lt_frame_fn fn, void *ctx)
{
    reader r = {.path = path};
    wish w = {.numbers = numbers, .n = n, .budget = budget, .fn = fn, .ctx = ctx};
    av_log_set_level(AV_LOG_QUIET);
    lt_status st = find_stream(&r);
    if (st == LT_OK)
        st = open_codec(&r);
    if (st == LT_OK)
        st = read_all(&r, &w);
    close_reader(&r);
    return st;
}
