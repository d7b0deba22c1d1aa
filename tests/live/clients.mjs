// SPDX-License-Identifier: Apache-2.0
//
// node clients.mjs PORT LIBRARY [TOKEN]: connects with LIBRARY as its manual says, asks the same questions as every
// other client, and prints the answers as one line of JSON.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const [port, library, token] = process.argv.slice(2)
const key = (name) => `${library}:${name}`
const bucket = ['3', '10', '6000'] // a unit every 600 s

async function withIoredis(Redis) {
  const redis = new Redis({ host: '127.0.0.1', port: Number(port), password: token, connectionName: 'live', retryStrategy: null })
  const throttle = (...words) => redis.call('CL.THROTTLE', ...words)
  const answers = {
    ping: await redis.ping(),
    example: await throttle(key('example'), '15', '30', '60'),
    sequence: [],
  }
  for (let i = 0; i < 5; i++) answers.sequence.push(await throttle(key('sequence'), ...bucket))
  const queue = (pipeline) => {
    for (let i = 0; i < 5; i++) pipeline.call('CL.THROTTLE', key(pipeline.name_), ...bucket)
    return pipeline
  }
  const pipeline = queue(Object.assign(redis.pipeline(), { name_: 'pipeline' }))
  answers.pipeline = (await pipeline.exec()).map(([, reply]) => reply)
  const multi = queue(Object.assign(redis.multi(), { name_: 'multi' }))
  answers.multi = (await multi.exec()).map(([, reply]) => reply)
  answers.deleted = await redis.del(key('sequence'))
  answers.again = await throttle(key('sequence'), ...bucket)
  answers.check = await redis.call('WEIR.CHECK', '1', 'user', library)
  answers.error = await throttle(key('error'), '15', '0', '60').catch((error) => error.message)
  await redis.quit()
  return answers
}

async function withNodeRedis({ createClient }) {
  const socket = { host: '127.0.0.1', port: Number(port), reconnectStrategy: false }
  const client = createClient({ socket, password: token, name: 'live' })
  client.on('error', () => {})
  await client.connect()
  const throttle = (...words) => client.sendCommand(['CL.THROTTLE', ...words])
  const answers = {
    ping: await client.ping(),
    example: await throttle(key('example'), '15', '30', '60'),
    sequence: [],
  }
  for (let i = 0; i < 5; i++) answers.sequence.push(await throttle(key('sequence'), ...bucket))
  answers.pipeline = await Promise.all(Array.from({ length: 5 }, () => throttle(key('pipeline'), ...bucket)))
  const multi = client.multi()
  for (let i = 0; i < 5; i++) multi.addCommand(['CL.THROTTLE', key('multi'), ...bucket])
  answers.multi = await multi.exec()
  answers.deleted = await client.del(key('sequence'))
  answers.again = await throttle(key('sequence'), ...bucket)
  answers.check = await client.sendCommand(['WEIR.CHECK', '1', 'user', library])
  answers.error = await throttle(key('error'), '15', '0', '60').catch((error) => error.message)
  await client.close()
  return answers
}

const ask = library.startsWith('ioredis') ? withIoredis : withNodeRedis
const answers = await ask(require(library))
console.log(JSON.stringify(answers))
