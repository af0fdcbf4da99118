/* SPDX-License-Identifier: GPL-2.0 */
#define CONFIG_64BIT 1
#define CONFIG_BASE_SMALL 0
#define CONFIG_XARRAY_MULTI 1
