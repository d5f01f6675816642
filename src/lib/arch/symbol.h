/* SPDX-License-Identifier: MIT
 *
 * Directives that begin, end and name an assembly function inside C code, for ELF and for Mach-O.
 * On Mach-O, names begin with an underscore, and symbols have neither type nor size. assembly.inc
 * has the same directives for files of assembly.
 */
#ifndef SONDE_ARCH_SYMBOL_H
#define SONDE_ARCH_SYMBOL_H

#if defined(__APPLE__)
#define PREFIX             "_"
#define PAGE_OF            PREFIX /* of a variable, aarch64 */
#define PAGE_END           "@PAGE"
#define LOW_OF             PREFIX
#define LOW_END            "@PAGEOFF"
#define FUNCTION_END(name) ".popsection\n"
#define HIDE_SYMBOL(name)  ".private_extern _" #name "\n"
#define FUNCTION_BEGIN(name)                                                                       \
  ".pushsection __TEXT,__text\n.p2align 4\n.globl _" #name "\n_" #name ":\n"
#else
#define PREFIX             ""
#define PAGE_OF            ""
#define PAGE_END           ""
#define LOW_OF             ":lo12:"
#define LOW_END            ""
#define FUNCTION_END(name) ".size " #name ", . - " #name "\n.popsection\n"
#define HIDE_SYMBOL(name)  ".hidden " #name "\n"
#define FUNCTION_BEGIN(name)                                                                       \
  ".pushsection .text\n.p2align 4\n.globl " #name "\n.type " #name ", STT_FUNC\n" #name ":\n"
#endif

#endif
