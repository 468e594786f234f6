// SPDX-License-Identifier: Apache-2.0
// What all devices share.
#include "device/device.h"

void lt_device_close(lt_device *d)
{
    if (d)
        d->close(d);
}
