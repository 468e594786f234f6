// SPDX-License-Identifier: Apache-2.0
// The prediction module of Qwen3.5: one more decoder layer that predicts the token after next.
#ifndef LT_MODEL_MTP_H
#define LT_MODEL_MTP_H

#include "model/qwen_decoder.h"

/**
 * x = [norm(e) | norm(h)] W_fc^T, with h what the decoder's last norm gives and e the embedding of
 * the next token as it stands in the table; one layer with attention; a norm; the decoder's head.
 * Its loss is of the token after next, weighed by LT_BATCH_NEXT_KAPPA. It trains the decoder, the
 * embedding and the head, too.
 *
 * source   spec/models.md 3.3, 6.3, 8.10. A layer's routed experts do not count in the balance loss
 * notes    the last row of a sample meets the next sample's first token, and what it predicts has
 *          no weight; no other row can see it
 */
void lt_mtp_params(lt_decoder *d);
/** Its blocks, behind the decoder's; sets next_block. */
void lt_mtp_blocks(lt_decoder *d);
#endif
