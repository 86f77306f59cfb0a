import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { licenseOf, packageDirectory } from '../licenses'

describe('licenses', () => {
  it('are those of the package that a module is of', () => {
    expect(packageDirectory('/a/node_modules/svelte/src/index.js')).toBe('/a/node_modules/svelte')
    expect(packageDirectory('/a/node_modules/@dagrejs/dagre/dist/x.js')).toBe('/a/node_modules/@dagrejs/dagre')
    expect(packageDirectory('/a/node_modules/x/node_modules/y/z.js')).toBe('/a/node_modules/x/node_modules/y')
    expect(packageDirectory('/a/src/main.ts')).toBeNull()
    expect(packageDirectory('\0vite/node_modules/x/y.js')).toBeNull()
  })

  it('come with their text', () => {
    const found = licenseOf(join(import.meta.dirname, '../node_modules/uplot'))
    expect(found).toMatchObject({ name: 'uplot', license: 'MIT' })
    expect(found.text).toContain('Permission is hereby granted')
  })
})
