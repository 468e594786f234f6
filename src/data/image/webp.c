// SPDX-License-Identifier: Apache-2.0
// WebP through libwebp: lossy with fancy upsampling and lossless, the first frame of an animation.
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "data/image/native.h"

static lt_status broken(const char *name, size_t len, VP8StatusCode code)
{
    static const char *const why[] = {
        [VP8_STATUS_OUT_OF_MEMORY] = "out of memory",
        [VP8_STATUS_BITSTREAM_ERROR] = "its data are broken",
        [VP8_STATUS_UNSUPPORTED_FEATURE] = "it uses what no decoder knows",
        [VP8_STATUS_SUSPENDED] = "it is truncated",
        [VP8_STATUS_NOT_ENOUGH_DATA] = "it is truncated",
    };
    const bool known = (size_t)code < sizeof why / sizeof why[0] && why[code];
    return LT_FAIL(code == VP8_STATUS_OUT_OF_MEMORY ? LT_ERR_MEMORY : LT_ERR_FORMAT,
                   "picture %s, %zu bytes of WebP, cannot be decoded: %s", name, len,
                   known ? why[code] : "it is broken");
}

/** The canvas behind the first frame is transparent black. */
static lt_status first_frame(const uint8_t *bytes, size_t len, const char *name, lt_native *out)
{
    const WebPData data = {bytes, len};
    WebPAnimDecoderOptions options;
    uint8_t *canvas = NULL;
    int time = 0;
    if (!WebPAnimDecoderOptionsInit(&options))
        return LT_FAIL(LT_ERR_INTERNAL, "libwebp is of another version than its headers");
    options.color_mode = MODE_RGBA;
    WebPAnimDecoder *d = WebPAnimDecoderNew(&data, &options);
    if (d == NULL || !WebPAnimDecoderGetNext(d, &canvas, &time)) {
        WebPAnimDecoderDelete(d);
        return broken(name, len, VP8_STATUS_NOT_ENOUGH_DATA);
    }
    const size_t n = (size_t)(out->h * out->w);
    const int step = lt_native_pixel_bytes(out->mode);
    for (size_t i = 0; i < n; i++)
        memcpy(out->px + i * (size_t)step, canvas + 4 * i, (size_t)step);
    WebPAnimDecoderDelete(d);
    return LT_OK;
}

static lt_status whole(const uint8_t *bytes, size_t len, const char *name, lt_native *out)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return LT_FAIL(LT_ERR_INTERNAL, "libwebp is of another version than its headers");
    const int step = lt_native_pixel_bytes(out->mode);
    config.output.colorspace = step == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out->px;
    config.output.u.RGBA.stride = (int)out->w * step;
    config.output.u.RGBA.size = (size_t)(out->h * out->w) * (size_t)step;
    const VP8StatusCode code = WebPDecode(bytes, len, &config);
    return code == VP8_STATUS_OK ? LT_OK : broken(name, len, code);
}

lt_status lt_webp_decode(const uint8_t *bytes, size_t len, const char *name, lt_native *out)
{
    WebPBitstreamFeatures f;
    const VP8StatusCode code = WebPGetFeatures(bytes, len, &f);
    if (code != VP8_STATUS_OK)
        return broken(name, len, code);
    LT_TRY(lt_native_take(out, f.has_alpha ? LT_MODE_RGBA : LT_MODE_RGB, f.height, f.width, name));
    return f.has_animation ? first_frame(bytes, len, name, out) : whole(bytes, len, name, out);
}
