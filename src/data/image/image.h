// SPDX-License-Identifier: Apache-2.0
// Pictures: the size from the header alone, decoding, the pixel budget, the processor's resize,
// patch rows.
#ifndef LT_DATA_IMAGE_IMAGE_H
#define LT_DATA_IMAGE_IMAGE_H

#include "data/grid.h"
#include "tensor/tensor.h"

/**
 * Formats that are told apart by their first bytes. JPEG, PNG, WebP, GIF and BMP are read, the
 * others are refused by name.
 */
#define LT_IMAGE_FORMAT_LIST(X)                                                                    \
    X(UNKNOWN, "unknown")                                                                          \
    X(JPEG, "JPEG")                                                                                \
    X(PNG, "PNG")                                                                                  \
    X(GIF, "GIF")                                                                                  \
    X(WEBP, "WebP")                                                                                \
    X(BMP, "BMP")                                                                                  \
    X(TIFF, "TIFF")                                                                                \
    X(JPEG2000, "JPEG 2000")                                                                       \
    X(JPEGXL, "JPEG XL")                                                                           \
    X(AVIF, "AVIF")                                                                                \
    X(HEIC, "HEIC")                                                                                \
    X(ICO, "ICO")                                                                                  \
    X(PSD, "Photoshop")                                                                            \
    X(PNM, "PNM")                                                                                  \
    X(QOI, "QOI")                                                                                  \
    X(SVG, "SVG or XML")                                                                           \
    X(PDF, "PDF")

typedef enum lt_image_format {
#define LT_IMAGE_ENUM(name, text) LT_IMAGE_##name,
    LT_IMAGE_FORMAT_LIST(LT_IMAGE_ENUM)
#undef LT_IMAGE_ENUM
} lt_image_format;
/** "JPEG", "WebP", ... */
const char *lt_image_format_name(lt_image_format format);

typedef struct lt_image_info {
    lt_image_format format;
    int64_t h, w; // as stored; an EXIF orientation is ignored, as the reference does
} lt_image_info;

/** An 8-bit RGB picture, px [h, w, 3]. Start from {0}; lt_image_deinit frees px. */
typedef struct lt_image {
    uint8_t *px;
    int64_t h, w;
} lt_image;
void lt_image_deinit(lt_image *image);

// ---------------------------------------------------------------- reading files

/**
 * Format and size from the header, without decoding. `name` is the path that messages show.
 * errors   LT_ERR_NOT_FOUND, LT_ERR_IO; LT_ERR_UNSUPPORTED for a known format that isn't read;
 *          LT_ERR_FORMAT for an empty, cut or unknown file, and above 178,956,970 pixels (the
 *          reference's own limit)
 * threads  any
 */
LT_NODISCARD lt_status lt_image_probe(const char *path, lt_image_info *out);
LT_NODISCARD lt_status lt_image_probe_bytes(const void *bytes, size_t len, const char *name,
                                            lt_image_info *out);

typedef enum lt_image_filter { LT_IMAGE_BICUBIC, LT_IMAGE_NEAREST } lt_image_filter;

/**
 * The pixel budget of the YAML (image_max_pixels, image_min_pixels), applied before the model's own
 * resize.
 */
typedef struct lt_image_budget {
    int64_t max_pixels, min_pixels;
    lt_image_filter filter; // LT_IMAGE_NEAREST for the qwen2_vl plug-in
    bool plain; // no least side and no limit of the aspect: LLaMA-Factory's intern_vl plug-in
} lt_image_budget;
/** 589824 (768*768), 1024 (32*32), bicubic. */
lt_image_budget lt_image_budget_default(void);

/** No budget: pictures stay as they are. */
lt_image_budget lt_image_budget_none(void);

/**
 * Size after the budget: shrink above max_pixels, enlarge below min_pixels; unless plain, sides at
 * least 28 and aspect at most 200.
 * source   spec data-pipeline 7.3 (MindSpeed-MM's regularisation), in double, truncating
 * errors   LT_ERR_DATA when a side becomes 0 (1 x 300000)
 */
LT_NODISCARD lt_status lt_image_budget_size(const lt_image_budget *budget, int64_t h, int64_t w,
                                            int64_t *out_h, int64_t *out_w);

/**
 * Decode and bring within the budget: the RGB bytes that Pillow has at the same point, in every
 * bit.
 * in       JPEG: 1, 3 or 4 components, baseline, progressive or arithmetic, 8 bits. PNG: every
 *          colour type and depth. WebP, GIF: the first frame. BMP: 1 to 32 bits, run lengths.
 * out      *out is replaced; free with lt_image_deinit
 * errors   as lt_image_probe; LT_ERR_FORMAT for a truncated or broken file, naming it;
 *          LT_ERR_MEMORY
 * threads  any
 */
LT_NODISCARD lt_status lt_image_load(const char *path, const lt_image_budget *budget,
                                     lt_image *out);
LT_NODISCARD lt_status lt_image_load_bytes(const void *bytes, size_t len, const char *name,
                                           const lt_image_budget *budget, lt_image *out);

/**
 * Bring an RGB picture within the budget, in place.
 * errors   LT_ERR_DATA as lt_image_budget_size, naming the picture; LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_image_fit(lt_image *image, const lt_image_budget *budget,
                                    const char *name);

// ---------------------------------------------------------------- the model's processor

/** Whose arithmetic the processor's resize and normalisation follow. */
typedef enum lt_resampler {
    LT_RESAMPLE_TORCHVISION, // use_fast_tokenizer: true, the default
    LT_RESAMPLE_PILLOW,      // use_fast_tokenizer: false
} lt_resampler;

/** The numbers of preprocessor_config.json. */
typedef struct lt_image_processor {
    int64_t patch, merge, temporal;
    int64_t min_pixels,
        max_pixels; // size.shortest_edge, size.longest_edge: pixel counts despite their names
    double mean[3], std[3];
    lt_resampler resampler; // not in the file: set by the caller
} lt_image_processor;
/**
 * Qwen3-VL: patch 16, merge 2, temporal 2, 65536 .. 16777216 pixels, mean and std 0.5, torchvision.
 */
lt_image_processor lt_image_processor_default(void);
/**
 * Read DIR/preprocessor_config.json, or the image_processor part of DIR/processor_config.json; what
 * they leave out stays as in lt_image_processor_default. Knows size {shortest_edge, longest_edge},
 * min_pixels and max_pixels (which win), also inside size.
 * errors   LT_ERR_NOT_FOUND when there is neither file; LT_ERR_FORMAT, LT_ERR_CONFIG with file and
 *          key; LT_ERR_UNSUPPORTED for a switched-off step (do_resize: false) or another filter
 *          than bicubic
 */
LT_NODISCARD lt_status lt_image_processor_open(const char *dir, lt_image_processor *out);

/**
 * The processor's own size: multiples of patch*merge within min_pixels..max_pixels, halves to even.
 * source   smart_resize of transformers' Qwen2-VL image processor
 * errors   LT_ERR_DATA for an aspect above 200
 */
LT_NODISCARD lt_status lt_smart_resize(const lt_image_processor *p, int64_t h, int64_t w,
                                       int64_t *out_h, int64_t *out_w);
/**
 * Grid of a picture of that stored size: budget, then smart_resize. Needs no pixels. errors: of
 * both
 */
LT_NODISCARD lt_status lt_image_grid(const lt_image_processor *p, const lt_image_budget *budget,
                                     int64_t h, int64_t w, lt_grid *out);
/** Grid of a picture whose size is final (lt_image_load's result). */
LT_NODISCARD lt_status lt_image_grid_of_size(const lt_image_processor *p, int64_t h, int64_t w,
                                             lt_grid *out);
/** 3 * temporal * patch * patch: numbers in a patch row. */
int64_t lt_image_row_width(const lt_image_processor *p);

/**
 * Resize to h x w by p->resampler, every byte as Pillow or torchvision (uint8, antialiased
 * bicubic). *out is replaced.
 */
LT_NODISCARD lt_status lt_image_resize(const lt_image_processor *p, const lt_image *in, int64_t h,
                                       int64_t w, lt_image *out);
/**
 * Patch rows of one picture (one frame repeated `temporal` times), block-major: row = (by, bx, dy,
 * dx), column = (channel, time, y, x).
 * in       resized: sides are multiples of patch*merge
 * out      rows [grid patches, lt_image_row_width]; u8: the bytes themselves; f32: rescaled and
 *          normalised; bf16: that, nearest even
 * errors   LT_ERR_SHAPE, LT_ERR_DTYPE
 */
LT_NODISCARD lt_status lt_image_patches(const lt_image_processor *p, const lt_image *resized,
                                        lt_dtype dtype, void *rows);
/**
 * Patch rows of one temporal slice of a video: `temporal` frames of one size, one after another in
 * each row.
 */
LT_NODISCARD lt_status lt_clip_patches(const lt_image_processor *p, const lt_image *frames,
                                       lt_dtype dtype, void *rows);
/**
 * lt_image_resize to the grid that follows from `regularised`, then lt_image_patches. rows must
 * hold that grid.
 */
LT_NODISCARD lt_status lt_image_rows(const lt_image_processor *p, const lt_image *regularised,
                                     lt_dtype dtype, void *rows);
#endif
