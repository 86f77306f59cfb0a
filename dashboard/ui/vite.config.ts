import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vitest/config'
import { licenses } from './licenses'

const bundled = licenses('licenses.json')
const server = process.env.AMQPROXY_DASHBOARD ?? 'http://127.0.0.1:8672'

export default defineConfig({
  plugins: [svelte(), bundled.page],
  build: {
    outDir: '../static',
    emptyOutDir: true,
    assetsInlineLimit: 0, // no data: URLs, which the Content-Security-Policy forbids
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
  worker: { format: 'es', plugins: () => [bundled.worker] },
  server: {
    proxy: { '/api': { target: server, ws: true, changeOrigin: true } },
  },
  test: {
    include: ['tests/**/*.test.ts'],
    environment: 'node',
  },
})
