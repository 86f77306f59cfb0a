/** Which npm packages the built page has parts of, with their licenses: `licenses.json` beside the page. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Plugin } from 'vite'

export interface License {
  name: string
  version: string
  license: string
  text: string
}

/** One plugin for the page, which writes the file, and one for its workers, which are bundled before it. */
export function licenses(fileName: string): { page: Plugin; worker: Plugin } {
  const found = new Map<string, License>()
  const collect = (bundle: object): void => {
    for (const chunk of Object.values(bundle) as { moduleIds?: string[] }[]) {
      for (const id of chunk.moduleIds ?? []) {
        const directory = packageDirectory(id)
        if (directory && !found.has(directory)) found.set(directory, licenseOf(directory))
      }
    }
  }
  return {
    page: {
      name: 'amqproxy:licenses',
      apply: 'build',
      generateBundle(_, bundle) {
        collect(bundle)
        const sorted = [...found.values()].sort((a, b) => a.name.localeCompare(b.name))
        this.emitFile({ type: 'asset', fileName, source: JSON.stringify(sorted, null, 1) })
      },
    },
    worker: {
      name: 'amqproxy:worker-licenses',
      apply: 'build',
      generateBundle(_, bundle) {
        collect(bundle)
      },
    },
  }
}

/** The directory of the npm package that a module is of; null for our own modules and those of the bundler. */
export function packageDirectory(moduleId: string): string | null {
  return /^[^\0].*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(moduleId)?.[0] ?? null
}

/** The license that a package has. A package without a text of its license is an error: the page could not be passed on. */
export function licenseOf(directory: string): License {
  const { name, version, license } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf-8'))
  const file = readdirSync(directory).find((each) => /^(licen[sc]e|copying)/i.test(each))
  if (!file) throw new Error(`${name} has no text of its license`)
  return { name, version, license, text: readFileSync(join(directory, file), 'utf-8').trim() }
}
