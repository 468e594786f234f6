// SPDX-License-Identifier: Apache-2.0
// The log line of a step and its relatives.
#include "train/log_line.h"
#include "base/number.h"
#include <math.h>
#include <stdio.h>
#include <time.h>

// Not-a-number without a sign, which C may print and Python never does.
static double unsigned_nan(double x)
{
    return isnan(x) ? fabs(x) : x;
}

static lt_status put_time(int64_t unix_seconds, lt_buf *out)
{
    const time_t when = (time_t)unix_seconds;
    struct tm local;
    char text[64];
    if (!localtime_r(&when, &local) ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local) == 0)
        return LT_FAIL(LT_ERR_INTERNAL, "the time %lld has no date", (long long)unix_seconds);
    return lt_buf_printf(out, " [%s]", text);
}

static lt_status put_loss(const char *name, double loss, lt_buf *out)
{
    return lt_buf_printf(out, " %s: %.6E |", name, unsigned_nan(loss));
}

lt_status lt_step_line_text(const lt_step_line *line, lt_buf *out)
{
    LT_TRY(put_time(line->unix_seconds, out));
    LT_TRY(lt_buf_printf(out, " iteration %8lld/%8lld |", (long long)line->iteration,
                         (long long)line->n_iterations));
    LT_TRY(lt_buf_printf(out, " consumed samples: %12lld |", (long long)line->consumed_samples));
    LT_TRY(lt_buf_printf(out, " elapsed time per iteration (ms): %.1f |", line->elapsed_ms));
    LT_TRY(put_loss("learning rate", line->lr, out));
    LT_TRY(lt_buf_printf(out, " global batch size: %5lld |", (long long)line->global_batch));
    LT_TRY(put_loss("loss", line->loss, out));
    for (int64_t i = 0; i < line->n_mtp; i++) {
        char name[40];
        snprintf(name, sizeof name, "mtp_%lld loss", (long long)i + 1);
        LT_TRY(put_loss(name, line->mtp_losses[i], out));
    }
    if (line->aux_loss != 0)
        LT_TRY(put_loss("aux loss", line->aux_loss, out));
    return lt_buf_printf(out, " grad norm: %.3F |", unsigned_nan(line->grad_norm));
}

lt_status lt_ranks_line_text(const lt_ranks_line *line, lt_buf *out)
{
    return lt_buf_printf(out,
                         " ranks: %.1f ms a step, %.1f %%, between them, hidden by nothing | pool "
                         "of the fullest: %s |",
                         line->comm_s * 1e3 / (double)line->steps,
                         100.0 * line->comm_s / line->step_s, lt_bytes_text(line->memory).s);
}

lt_status lt_experts_line_text(const lt_experts_line *line, lt_buf *out)
{
    LT_TRY(lt_buf_text(out, " aux loss of layers:"));
    for (int64_t i = 0; i < line->n; i++)
        LT_TRY(lt_buf_printf(out, " %.4f", unsigned_nan(line->layers[i])));
    return lt_buf_printf(out, " | busiest: expert %lld of layer %lld, %.2f times an even share |",
                         (long long)line->expert, (long long)line->layer,
                         unsigned_nan(line->share));
}

lt_status lt_validation_line_text(int64_t unix_seconds, int64_t iteration, int64_t n_steps,
                                  double loss, lt_buf *out)
{
    LT_TRY(put_time(unix_seconds, out));
    LT_TRY(lt_buf_printf(out, " ** validation after iteration %lld ** | validation steps: %lld |",
                         (long long)iteration, (long long)n_steps));
    return put_loss("validation loss", loss, out);
}

lt_status lt_memory_line_text(const lt_memory_line *line, lt_buf *out)
{
    const struct {
        const char *name;
        int64_t bytes;
    } figures[] = {{"allocated", line->allocated},
                   {"max allocated", line->max_allocated},
                   {"reserved", line->reserved},
                   {"max reserved", line->max_reserved}};
    LT_TRY(lt_buf_printf(out, "[Rank %lld] (after %lld iterations) memory (MB)",
                         (long long)line->rank, (long long)line->iterations));
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        LT_TRY(lt_buf_printf(out, " | %s: %s", figures[i].name,
                             lt_double_text((double)figures[i].bytes / 0x1p20).s));
    return LT_OK;
}

lt_status lt_saved_line_text(const char *dir, lt_buf *out)
{
    return lt_buf_printf(out, "Saved checkpoint to %s", dir);
}

lt_status lt_loaded_line_text(const char *dir, lt_buf *out)
{
    return lt_buf_printf(out, "Loaded checkpoint from %s", dir);
}
