// Version of the emulated XPU runtime. The numbers are those of a public P800 installation (XPU-RT 5.37.1); they
// select the XRE5 generation of the interface and say nothing about who wrote this file.
#pragma once

#define XPURT_VERSION_MAJOR 5
#define XPURT_VERSION_MINOR 37
#define XPURT_VERSION_THIRD 1
#define XPURT_COMMIT "emulated"
